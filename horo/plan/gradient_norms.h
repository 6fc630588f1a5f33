#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "horo/base/tensor_view.h"
#include "horo/base/topology.h"
#include "horo/plan/step_hook.h"

namespace horo::plan {

/// See GradientSyncOptions.
struct NormOptions {
  bool check_finite = false;
  std::optional<double> clip_norm;
  std::vector<std::string> metrics;
};

/// Computes the norm of the reduced gradients of a step, clips the gradients, and reports
/// non-finite values.
///
/// All ranks have the same reduced values and add their squares in the same order, so all ranks
/// compute the same norm without a message. Exception: with HORO_ALGORITHM=mpi, MPI does not
/// guarantee the same values on all ranks. The squares are summed per gradient, so the norm of
/// given values does not depend on the buckets.
///
/// Costs one pass over each bucket after the exchange. With check_finite, also costs one pass
/// before the exchange. Clipping costs one more pass over the gradients. Sends messages only with
/// check_finite, in a step with a non-finite value.
class GradientNorms : public StepHook {
 public:
  /// `topology` must outlive this object.
  GradientNorms(std::span<const NamedTensor> gradients, const NormOptions& options,
                const Topology& topology);

  void begin_exchange(StepExchange& step) override;
  void before_bucket(const StepExchange& step, BucketExchange& bucket) override;
  void after_bucket(const BucketExchange& bucket) override;
  void end_exchange(StepExchange& step) override;

 private:
  /// A non-finite value in a gradient of `rank`. `rank` is -1 if the value is in the reduced
  /// gradient, or if there is no such value.
  struct Source {
    std::int64_t rank = -1;
    std::uint64_t gradient = 0;
    std::uint64_t index = 0;
    double value = 0;
  };
  void find_in_own(std::size_t gradient);
  std::optional<Source> find_in_results() const;
  double norm() const;
  bool are_all_finite() const;
  StepReport::NonFinite find_source(collectives::Collectives& collectives) const;
  void scale_all(double factor) const;

  std::vector<NamedTensor> gradients_;
  NormOptions options_;
  std::vector<bool> is_metric_;  // metrics are not included in the norm and are not clipped
  const Topology& topology_;
  std::vector<double> squares_;       // sum of the squares of each reduced gradient
  std::optional<Source> own_source_;  // in this rank's gradients, before the exchange
};

}  // namespace horo::plan
