#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collectives/collectives.h"
#include "horo/base/step_report.h"
#include "horo/base/tensor_view.h"
#include "horo/base/topology.h"

namespace horo::coordinator {

/// Measures the gradients of a plan. Since all ranks end an exchange with the same bits and every
/// gradient is summed up by itself, in an order of its own, the ranks find the same norm without
/// talking, whatever the buckets. Used by one thread at a time.
class GradientNorms {
 public:
  /// `is_metric[i]`: gradient i counts neither for the norm nor is it scaled.
  GradientNorms(std::vector<NamedTensor> gradients, std::vector<bool> is_metric,
                const Topology& topology);

  /// Looks for a value that is not finite in this rank's own gradient, before it is exchanged. One
  /// pass over it.
  void look_for_source(std::size_t gradient);
  /// Of a gradient that has been reduced. One pass over it.
  void measure(std::size_t gradient);

  /// Fills norm and is_finite with what has been measured of all gradients.
  void conclude(StepReport& report) const;
  /// Finds where values come from that are not finite. Collective, for steps that have them.
  StepReport::NonFinite find_source(collectives::Collectives& collectives) const;
  /// Multiplies all gradients but the metrics.
  void scale_all(double factor) const;
  /// Forgets what look_for_source() has found, for the next step.
  void begin_step();

 private:
  struct Source {
    std::int64_t rank = 0;
    std::uint64_t gradient = 0;
    std::uint64_t index = 0;
    double value = 0;
  };
  std::optional<Source> find_in_results() const;

  std::vector<NamedTensor> gradients_;
  std::vector<bool> is_metric_;
  const Topology& topology_;
  std::vector<double> squares_;  // of each gradient, as measured
  std::optional<Source> own_source_;
};

}  // namespace horo::coordinator
