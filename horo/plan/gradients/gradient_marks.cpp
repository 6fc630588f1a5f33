#include "horo/plan/gradients/gradient_marks.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "horo/plan/bucket_scheduler.h"

namespace horo::plan {

// The minimum over the ranks is 1 only if every rank has declared the gradient unused.
void UnusedGradients::end_exchange(StepExchange& step) {
  step.collectives.allreduce({DataType::kUInt8, is_unused_.data(), is_unused_.size()},
                             ReduceOp::kMin);
  for (std::size_t i = 0; i < is_unused_.size(); ++i)
    if (is_unused_[i] != 0) step.report.unused_everywhere.push_back(i);
  std::ranges::fill(is_unused_, std::uint8_t{0});
}

void MarkOrder::end_pass() {
  if (stage_ != Stage::kNoting) return;
  for (std::atomic<std::uint64_t>& position : positions_) position = 0;
  noted_ = 0;
}

// The ranks may have marked the gradients in different orders, so all ranks use the order of rank
// 0. Gradients that rank 0 has not recorded come last, from the last to the first, as in
// make_bucket_plan(). No thread writes positions_ any more, because note() does nothing in this
// stage.
void MarkOrder::begin_exchange(StepExchange& step) {
  if (stage_ != Stage::kAgreeing) return;
  order_.resize(positions_.size());
  std::iota(order_.rbegin(), order_.rend(), std::int64_t{0});
  std::ranges::stable_sort(order_, {}, [&](std::int64_t i) {
    const std::uint64_t position = positions_[static_cast<std::size_t>(i)];
    return position == 0 ? std::numeric_limits<std::uint64_t>::max() : position;
  });
  step.collectives.broadcast({DataType::kInt64, order_.data(), order_.size()}, 0);
}

// On all ranks, stage_ is kNoting in the first step, kAgreeing in the second step and kDone in all
// later steps.
void MarkOrder::end_step(BucketScheduler& scheduler, const StepReport& /*report*/) {
  if (stage_ == Stage::kAgreeing)
    scheduler.repack(std::vector<std::size_t>(order_.begin(), order_.end()),
                     scheduler.plan().limits);
  stage_ = stage_ == Stage::kNoting ? Stage::kAgreeing : Stage::kDone;
}

}  // namespace horo::plan
