#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "collectives/collectives.h"
#include "horo/base/reduce_op.h"
#include "horo/base/topology.h"

namespace horo::coordinator {

/// The ranks' weights in a step, and what each makes of its values, so that an exchange gives
/// sum(weight * value) / sum(weight). Used by one thread at a time.
class StepWeights {
 public:
  explicit StepWeights(const Topology& topology);

  /// Of this rank, from the next agree() on; at least 0.
  void set_own(double weight) { own_ = weight; }
  double own() const { return own_; }
  /// This rank has no data any more: it weighs 0, whatever set_own() says.
  void set_ended(bool has_ended) { has_ended_ = has_ended; }

  /// Tells all ranks each other's weights. Collective: an allreduce of 8 bytes per rank.
  void agree(collectives::Collectives& collectives);

  // What agree() has found, the same on all ranks but for factor().
  double total() const { return total_; }
  /// Whether the plain average is right.
  bool are_equal() const { return are_equal_; }
  bool have_all_ended() const { return have_all_ended_; }
  /// The highest of the ranks that weighed more than 0 when last one did; -1: none has since the
  /// last call.
  int take_last_with_data() { return std::exchange(last_with_data_, -1); }
  /// What this rank multiplies its values by if the weights are not equal and `op` follows.
  /// Requires total() > 0.
  double factor(ReduceOp op) const;

 private:
  std::size_t rank_;
  std::vector<double> weights_;
  double own_ = 1;
  bool has_ended_ = false;
  double total_;
  bool are_equal_ = true;
  bool have_all_ended_ = false;
  int last_with_data_ = -1;
};

}  // namespace horo::coordinator
