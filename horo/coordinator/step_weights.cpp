#include "horo/coordinator/step_weights.h"

#include <algorithm>

namespace horo::coordinator {
namespace {

constexpr double kEnded = -1;

}  // namespace

StepWeights::StepWeights(const Topology& topology)
    : rank_(static_cast<std::size_t>(topology.rank)),
      weights_(static_cast<std::size_t>(topology.size)),
      total_(topology.size) {}

void StepWeights::agree(collectives::Collectives& collectives) {
  std::ranges::fill(weights_, 0.0);
  weights_[rank_] = has_ended_ ? kEnded : own_;
  // Only one rank has anything but 0 at each place: the sum is exact.
  collectives.allreduce({DataType::kFloat64, weights_.data(), weights_.size()}, ReduceOp::kSum);
  have_all_ended_ = std::ranges::all_of(weights_, [](double weight) { return weight == kEnded; });
  total_ = 0;
  for (double& weight : weights_) {
    weight = std::max(weight, 0.0);
    total_ += weight;
  }
  are_equal_ = std::ranges::all_of(weights_, [&](double weight) { return weight == weights_[0]; });
  for (std::size_t r = 0; r < weights_.size(); ++r)
    if (weights_[r] > 0) last_with_data_ = static_cast<int>(r);
}

double StepWeights::factor(ReduceOp op) const {
  const double share = weights_[rank_] / total_;
  return op == ReduceOp::kAverage ? share * static_cast<double>(weights_.size()) : share;
}

}  // namespace horo::coordinator
