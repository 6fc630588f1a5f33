#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

#include "examples/benchmarks/bench_timing.h"
#include "horo/horo.h"

namespace horo::bench {

/// How much the computation and the gradient exchange of a rank slow each other down.
struct OverlapResult {
  Stats alone_us;      ///< duration of the exchange from the first ready(), while the caller waits
  Stats computing_us;  ///< the same in the background, while the caller computes
  double loss = 0;     ///< computing_us / alone_us - 1 (medians)
  /// Fraction of its speed that the computation lost, on the rank that lost most.
  double computation_lost = 0;
  /// CPU time of the threads of horo as a fraction of a core, on the rank with the largest. Other
  /// load on the machine changes it little.
  double core_share = 0;
};

/// Exchanges `bytes` of float32 gradients, in tensors of at most 4 MiB, alternately with and
/// without a computation on the calling thread. The computation calls horo only to test whether the
/// exchange has completed. Checks the averages. Collective over all ranks of `ctx`.
OverlapResult measure_while_computing(Context& ctx, std::size_t bytes, int rounds);

nlohmann::json to_json(const OverlapResult& result);

}  // namespace horo::bench
