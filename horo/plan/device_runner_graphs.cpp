// The functions of DeviceRunner for steps in graphs. While a step is captured, the thread of the
// runner enqueues nothing: has_next() is false, and the marking thread adds the exchanges to the
// graph. A launch is one entry of under_way_ for all buckets of the plan.
#include <algorithm>
#include <string>

#include "horo/base/error.h"
#include "horo/plan/device_runner.h"

namespace horo::plan {

// Requires mutex_. At a step boundary, all buckets of the previous step are enqueued and no
// gradient of the next step is marked, so the runner's thread has nothing to enqueue.
void DeviceRunner::require_step_boundary(const char* what) const {
  if (error_ != nullptr) std::rethrow_exception(error_);
  HORO_CHECK(capture_ == Capture::kNone,
             std::string(what) + "() must not be called in a step that is being captured");
  HORO_CHECK(
      std::ranges::count(marks_, true) == 0,
      std::string(what) + "() must be called between steps: end the step with wait_on() or wait()");
}

// `step` runs without mutex_, because it calls mark() and wait_on() of this object. mark() and
// wait_on() check capture_. capture() resets capture_ after success and after an exception.
std::unique_ptr<CapturedStep> DeviceRunner::capture(void* native,
                                                    const std::function<void()>& step) {
  HORO_CHECK(is_alone() || parts_.collectives->can_be_captured(),
             "capture(): a hierarchical exchange (HORO_ALGORITHM=hierarchical) cannot be captured");
  {
    const std::scoped_lock lock(mutex_);
    require_step_boundary("capture");
    if (done_in_graph_ == nullptr) done_in_graph_ = parts_.device.make_event();
    capture_ = Capture::kMarking;
  }
  const auto end = [&] {
    const std::scoped_lock lock(mutex_);
    capture_ = Capture::kNone;
    // Removes the marks of the capture, because the device has run no step.
    begin_step();
  };
  try {
    auto captured =
        std::make_unique<CapturedStep>(parts_.device, native, parts_.pipeline.get(), [&] {
          step();
          const std::scoped_lock lock(mutex_);
          HORO_CHECK(capture_ == Capture::kEnded, "capture(): the step must end with wait_on()");
        });
    end();
    return captured;
  } catch (...) {
    end();
    throw;
  }
}

// Requires mutex_, as do the next two functions. Adds bucket next_ to the graph as soon as it is
// complete, so the graph has the buckets in plan order. An error of the caller ends the capture,
// not the plan.
void DeviceRunner::mark_in_capture(Bucket& bucket, std::size_t gradient, void* native) {
  set_mark(bucket, native);
  marks_[gradient] = true;
  --bucket.missing;
  while (next_ < buckets_.size() && buckets_[next_].missing == 0) give_next_to_graph();
}

// The first exchange connects the ranks. The host waits for the other ranks, up to the timeout of
// the collectives. A CommunicationError fails the plan, because the other ranks may have failed
// too.
void DeviceRunner::give_next_to_graph() {
  const std::size_t index = next_++;
  if (is_alone()) return;
  try {
    if (index == 0) parts_.pipeline->begin_step();
    parts_.pipeline->allreduce(parts_.layouts[index], spec_, marks_of(buckets_[index]),
                               *done_in_graph_);
  } catch (const CommunicationError&) {
    refused_ = index;
    fail(watch_.error());
    std::rethrow_exception(error_);
  }
}

// Joins the streams of the pipeline to the captured stream. If only one rank takes part, joins the
// marked streams instead. This ends the step in the graph.
void DeviceRunner::wait_on_in_capture(void* native) {
  HORO_CHECK(capture_ == Capture::kMarking,
             "wait_on() is called twice in a capture, but a graph holds one step");
  device::Stream& stream = stream_of(native);
  if (is_alone())
    for (const device::Event* event : ends_of_step()) stream.wait(*event);
  else
    parts_.pipeline->join(stream);
  capture_ = Capture::kEnded;
}

// A captured step has one set of events for even and one for odd step numbers. So this function
// waits until the step before the previous one has ended. The function records all gradients as
// marked and all buckets as complete at once, because the host does not see when the graph produces
// each gradient.
void DeviceRunner::launch(CapturedStep& step) {
  std::unique_lock lock(mutex_);
  require_step_boundary("launch");
  HORO_CHECK(!is_captured(step.native()),
             "launch() on a stream that is being captured: a graph cannot contain another graph");
  changed_.wait(lock, [&] {
    return error_ != nullptr || under_way_.empty() || under_way_.front().step + 2 > step_;
  });
  if (error_ != nullptr) std::rethrow_exception(error_);
  CapturedStep::Launch launch{};
  with_device([&] { launch = step.launch(step_); });
  for (std::size_t i = 0; i < marks_.size(); ++i) flight_.mark_in_step(i, step_);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    flight_.first(b);
    flight_.complete(b);
  }
  if (is_alone()) launch = {};
  under_way_.push_back({{launch.begun, launch.done}, 0, buckets_.size(), step_});
  ++step_;
  changed_.notify_all();
}

void DeviceRunner::wait(const CapturedStep& step) {
  if (step.done() != nullptr) await({step.done()});
  const std::scoped_lock lock(mutex_);
  // The event also completes if the exchange has failed, so check for an error.
  require_no_error();
}

// The caller must call this function before it destroys `step`, because the runner's thread polls
// the events of the launches of `step`.
void DeviceRunner::release(const CapturedStep& step) noexcept {
  std::unique_lock lock(mutex_);
  // Launches end in order, so the latest one ends last.
  changed_.wait(lock, [&] {
    return error_ != nullptr || step.done() == nullptr ||
           std::ranges::find(under_way_, step.done(), &UnderWay::done) == under_way_.end();
  });
}

}  // namespace horo::plan
