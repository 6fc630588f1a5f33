#include "horo/plan/step_weights.h"

#include <algorithm>

namespace horo::plan {
namespace {

// The value that a rank without more data sends in place of its weight. Weights are at least 0, so
// the value cannot be confused with a weight.
constexpr double kEndedWeight = -1;

}  // namespace

StepWeights::StepWeights(const Topology& topology)
    : rank_(static_cast<std::size_t>(topology.rank)),
      weights_(static_cast<std::size_t>(topology.size)) {}

void StepWeights::begin_exchange(StepExchange& step) {
  std::ranges::fill(weights_, 0.0);
  weights_[rank_] = has_ended_ ? kEndedWeight : own_;
  // Each element is nonzero on at most one rank, so the allreduce is exact. All ranks then add the
  // weights in the same order and get the same total.
  step.collectives.allreduce({DataType::kFloat64, weights_.data(), weights_.size()},
                             ReduceOp::kSum);
  have_all_ended_ =
      std::ranges::all_of(weights_, [](double weight) { return weight == kEndedWeight; });
  total_ = 0;
  for (double& weight : weights_) {
    weight = std::max(weight, 0.0);
    total_ += weight;
  }
  are_equal_ = std::ranges::all_of(weights_, [&](double weight) { return weight == weights_[0]; });
  for (std::size_t r = 0; r < weights_.size(); ++r)
    if (weights_[r] > 0) last_with_data_ = static_cast<int>(r);
  step.report.total_weight = total_;
  // The share of a small weight may round to 0. has_data is then false, because scaling by 0 would
  // keep NaN. If all weights are 0, the quotient is NaN and the comparison is false.
  step.has_data = weights_[rank_] / total_ > 0;
}

// Returns the factor by which this rank scales its values before a reduction with `op`. The average
// divides by the number of ranks, so the factor for an average is multiplied by that number.
double StepWeights::factor(ReduceOp op) const {
  const double share = weights_[rank_] / total_;
  return op == ReduceOp::kAverage ? share * static_cast<double>(weights_.size()) : share;
}

// In an uncompressed bucket, each rank multiplies its values by its share of the weights, and the
// operation becomes a sum. The shares add up to 1, so the sum stays in the range of the values. In
// a compressed bucket, the operation stays an average, so that residuals have the same scale in
// steps with equal and with different weights. A share that rounds to 0 contributes zeros, because
// multiplying by 0 would keep NaN.
void StepWeights::before_bucket(const StepExchange& step, BucketExchange& bucket) {
  if (are_equal_) return;  // the plain average has the same result, with one rounding less
  if (!bucket.is_compressed) bucket.op = ReduceOp::kSum;
  bucket.factor = factor(bucket.op);
  bucket.has_data = step.has_data;
}

// The buckets of a skipped step are not exchanged, so the gradients still have the values of this
// rank. This function sets them to zero.
void StepWeights::end_exchange(StepExchange& step) {
  if (step.is_skipped()) step.memory->set_zero();
}

}  // namespace horo::plan
