// The functions of DeviceRunner for steps in graphs. While a step is captured, has_next() returns
// false, so the runner's thread enqueues nothing. The threads that call mark() add the exchanges to
// the graph. A launch of the graph is one entry of under_way_, which covers all buckets of the
// plan.
#include <algorithm>
#include <string>

#include "horo/base/error.h"
#include "horo/plan/device_runner.h"

namespace horo::plan {

// Requires mutex_. Throws unless all buckets of the previous step are enqueued and no gradient of
// the next step is marked. The runner's thread then has nothing to enqueue.
void DeviceRunner::require_step_boundary(const char* what) const {
  if (error_ != nullptr) std::rethrow_exception(error_);
  HORO_CHECK(capture_ == Capture::kNone,
             std::string(what) + "() must not be called in a step that is being captured");
  HORO_CHECK(
      std::ranges::count(marks_, true) == 0,
      std::string(what) + "() must be called between steps: end the step with wait_on() or wait()");
}

// `step` runs without mutex_, because it calls mark() and wait_on() of this object, which lock
// mutex_.
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
    // Removes the marks that `step` has set, because the capture does not count as a step.
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
// complete, so the graph has the buckets in plan order.
void DeviceRunner::mark_in_capture(Bucket& bucket, std::size_t gradient, void* native) {
  set_mark(bucket, native);
  marks_[gradient] = true;
  --bucket.missing;
  while (next_ < buckets_.size() && buckets_[next_].missing == 0) give_next_to_graph();
}

// If this is the first exchange of the plan, allreduce() may wait until the ranks are connected, up
// to the timeout. A CommunicationError fails the plan. Other errors end only the capture.
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

// Makes the stream `native` wait for the streams of the pipeline. If only one rank takes part,
// makes it wait for the marks instead.
void DeviceRunner::wait_on_in_capture(void* native) {
  HORO_CHECK(capture_ == Capture::kMarking,
             "wait_on() was called twice in one capture; a graph contains exactly one step");
  device::Stream& stream = stream_of(native);
  if (is_alone())
    for (const device::Event* event : ends_of_step()) stream.wait(*event);
  else
    parts_.pipeline->join(stream);
  capture_ = Capture::kEnded;
}

// A captured step has one pair of events for even and one for odd step numbers. So this function
// first waits until the step before the previous one has ended. It records all gradients as marked
// and all buckets as complete at once, because the host does not see when the graph produces each
// gradient.
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
  // await() also returns if the exchange has failed, so check for an error.
  require_no_error();
}

// The caller must call this function before it destroys `step`, because the runner's thread polls
// the events of `step` while its launches are in flight.
void DeviceRunner::release(const CapturedStep& step) noexcept {
  std::unique_lock lock(mutex_);
  // Launches end in order, so the latest one ends last.
  changed_.wait(lock, [&] {
    return error_ != nullptr || step.done() == nullptr ||
           std::ranges::find(under_way_, step.done(), &UnderWay::done) == under_way_.end();
  });
}

}  // namespace horo::plan
