// The functions of DevicePlanExchange for steps in graphs. The launch of a graph is one exchange in
// flight, which covers all buckets of the plan.
#include <algorithm>

#include "horo/base/error.h"
#include "horo/plan/device/device_plan_exchange.h"

namespace horo::plan {

void DevicePlanExchange::require_capturable() const {
  HORO_CHECK(is_alone() || connection_.collectives->can_be_captured(),
             "capture(): a hierarchical exchange (HORO_ALGORITHM=hierarchical) cannot be captured");
  HORO_CHECK(memory_ == nullptr,
             "capture(): a step with weighted, clip_norm or check_finite cannot be captured; the "
             "host needs its values");
}

std::unique_ptr<CapturedStep> DevicePlanExchange::capture(void* native,
                                                          const std::function<void()>& step) {
  return std::make_unique<CapturedStep>(*parts_.device, native, pipeline_.get(), step);
}

// If this is the first exchange of the plan, allreduce() may wait until the ranks are connected, up
// to the timeout.
void DevicePlanExchange::exchange_in_graph(std::size_t index) {
  if (is_alone()) return;
  current_ = index;
  if (index == 0) pipeline_->begin_step();
  pipeline_->allreduce(
      layouts_[index],
      {.op = parts_.options.op, .leave_as_reduced = parts_.options.leave_as_reduced},
      marks_of(buckets_[index]), *done_in_graph_);
}

// Makes the stream wait for the streams of the pipeline. If only one rank takes part, makes it wait
// for the marks instead.
void DevicePlanExchange::join_in_graph(void* native) {
  std::vector<const device::Event*> marks;
  if (is_alone())
    for (const Bucket& bucket : buckets_)
      for (const device::Event* mark : marks_of(bucket)) marks.push_back(mark);
  const std::scoped_lock lock(marks_mutex_);
  device::Stream& stream = stream_of(native);
  if (!is_alone()) return pipeline_->join(stream);
  for (const device::Event* mark : marks) stream.wait(*mark);
}

// A captured step has one pair of events for even and one for odd step numbers.
void DevicePlanExchange::launch(CapturedStep& step) {
  if (step_ >= 2) await_step(step_ - 2);
  const CapturedStep::Launch launch = step.launch(step_);
  InFlight exchange{nullptr, nullptr, {}, 0, buckets_.size(), step_};
  if (!is_alone()) exchange.begun = launch.begun, exchange.done = launch.done;
  push(exchange);
  ends_ = {launch.done};
  ++step_;
}

bool DevicePlanExchange::is_in_flight(const CapturedStep& step) const {
  return step.done() != nullptr &&
         std::ranges::find(under_way_, step.done(), &InFlight::done) != under_way_.end();
}

}  // namespace horo::plan
