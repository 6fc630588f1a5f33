#pragma once

#include <utility>
#include <vector>

#include "horo/base/topology.h"
#include "horo/plan/step_hook.h"

namespace horo::plan {

/// Weights the contributions of the ranks: an exchange computes sum(weight * value) / sum(weight).
/// Costs an allreduce of 8 bytes per rank before the first bucket. If the weights of a step differ,
/// also costs one pass over the gradients.
class StepWeights : public StepHook {
 public:
  explicit StepWeights(const Topology& topology);

  /// Sets the weight of this rank, from the next exchange on. `weight` must be at least 0. The
  /// caller must call set_own() while no gradient is marked in the current pass.
  void set_own(double weight) { own_ = weight; }
  double own() const { return own_; }
  /// Declares whether this rank has no more data. If so, its weight is 0 and own() is ignored.
  void set_ended(bool has_ended) { has_ended_ = has_ended; }

  /// Whether all ranks had called set_ended(true) before the exchange of the latest step. All ranks
  /// get the same result.
  bool have_all_ended() const { return have_all_ended_; }
  /// Returns the highest rank with a weight above 0 in the latest step in which any rank had such a
  /// weight. Returns -1 if there was no such step since the previous call or the construction. All
  /// ranks that call this function after the same steps get the same result.
  int take_last_with_data() { return std::exchange(last_with_data_, -1); }

  void begin_exchange(StepExchange& step) override;
  void before_bucket(const StepExchange& step, BucketExchange& bucket) override;
  void end_exchange(StepExchange& step) override;

 private:
  double factor(ReduceOp op) const;

  std::size_t rank_;
  std::vector<double> weights_;
  double total_ = 0;
  bool are_equal_ = true;
  double own_ = 1;
  bool has_ended_ = false;
  bool have_all_ended_ = false;
  int last_with_data_ = -1;
};

}  // namespace horo::plan
