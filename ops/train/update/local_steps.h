#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace horo::ops {

/// Training in which each rank takes steps on its own, with its own optimizer, and the ranks agree
/// on the parameters once in `count` steps, for links that are slow compared with a step. The
/// agreed parameters x of all ranks change by an outer optimizer, SGD with Nesterov momentum:
///
///     d = average over the ranks of (x - parameters of the rank)
///     m = outer_momentum * m + d;   x -= outer_rate * (d + outer_momentum * m)
///
/// Each rank then continues from x. An exchange sends as many bytes as that of the gradients of one
/// synchronous step. Memory per rank: three more values per parameter, two without momentum.
/// Source: Douillard et al., "DiLoCo: distributed low-communication training of language models"
/// (2023).
///
/// With fragments and overlap, the exchanges are spread over the steps and hidden behind them.
/// Source: Douillard et al., "Streaming DiLoCo with overlapping communication" (2025).
struct LocalSteps {
  /// Steps between two exchanges of a parameter; 0: the ranks average the gradients of every step,
  /// and the other fields have no effect.
  std::size_t count = 0;
  /// Parts of the parameters, about equal in size, that are exchanged at different steps, `count` /
  /// `fragments` steps apart. Divides the peak of the traffic. From 1 to `count`, and to the number
  /// of parameters.
  std::size_t fragments = 1;
  /// Steps that a rank takes while an exchange is in flight, below `count`; 0: it waits.
  std::size_t overlap = 0;
  /// With overlap: the weight of the rank's own values when the agreed values arrive, from 0 to
  /// below 1. The steps during the exchange are lost with 0.
  float mixing = 0.5f;
  float outer_rate = 1;      ///< above 0
  float outer_momentum = 0;  ///< from 0 to below 1
};

/// Every `count` steps the ranks average their parameters. Source: Stich, "Local SGD converges fast
/// and communicates little" (2019).
LocalSteps local_sgd(std::size_t count);
/// The outer rate and momentum of DiLoCo. With more than one fragment and overlap: Streaming
/// DiLoCo.
LocalSteps diloco(std::size_t count, std::size_t fragments = 1, std::size_t overlap = 0);

/// "off", or all fields as text.
std::string describe(const LocalSteps& steps);
/// Throws InvalidArgument, one line, for values out of range. `parameters`: their number.
void check(const LocalSteps& steps, std::size_t parameters);

/// Consecutive parameters, [first, end).
struct ParameterRange {
  std::size_t first = 0;  ///< index of the first parameter
  std::size_t end = 0;    ///< index after the last one
  /// Whether both are equal.
  bool operator==(const ParameterRange&) const = default;
};
/// Divides parameters with `counts` elements into `fragments` ranges, in order, none empty, so that
/// the largest is as small as possible. Requires 1 <= fragments <= counts.size().
std::vector<ParameterRange> split_into_fragments(std::span<const std::size_t> counts,
                                                 std::size_t fragments);

/// Whether the exchange of `fragment` starts after `done` steps (at least 1) of training. The last
/// fragment starts at the multiples of steps.count, the others at equal distances before it.
bool is_exchanged_after(const LocalSteps& steps, std::size_t fragment, std::uint64_t done);

}  // namespace horo::ops
