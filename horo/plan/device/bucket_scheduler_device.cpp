// The functions of BucketScheduler for gradients in device memory.
#include <algorithm>
#include <string>
#include <thread>

#include "horo/base/error.h"
#include "horo/plan/bucket_scheduler.h"

namespace horo::plan {

// An error of the device affects all work of the plan, but an InvalidArgument affects only the
// caller. fail() must be called in the handler. The caller must not hold run_mutex_.
void BucketScheduler::with_device(const std::function<void()>& work) {
  try {
    work();
  } catch (const InvalidArgument&) {
    throw;
  } catch (const Error&) {
    fail_on_device();
  }
}

// fail() aborts the collectives. So a thread that holds run_mutex_ and waits for them returns.
void BucketScheduler::fail_on_device() {
  const std::exception_ptr error = device_->fail();
  {
    const std::scoped_lock lock(run_mutex_);
    set_error(device_->current_bucket(), error);
  }
  std::rethrow_exception(error_);
}

void BucketScheduler::check() {
  if (device_ != nullptr && !has_error_ && device_->has_failed()) fail_on_device();
  if (device_ != nullptr) require_no_error();
}

// An error in a capture ends only the capture.
void BucketScheduler::mark_on_device(std::size_t gradient, void* stream) {
  const bool is_in_capture = capture_ != Capture::kNone;
  try {
    if (is_in_capture) return device_->mark(gradient, stream);
    with_device([&] {
      HORO_CHECK(!device_->is_captured(stream),
                 "ready() on a stream that is being captured: capture the step with "
                 "GradientSync::capture()");
      device_->mark(gradient, stream);
    });
  } catch (const Error&) {
    marks_.unmark(gradient);
    throw;
  }
}

void BucketScheduler::wait_on(void* stream) {
  if (capture_ != Capture::kNone) {
    HORO_CHECK(capture_ == Capture::kMarking,
               "wait_on() was called twice in one capture; a graph contains exactly one step");
    device_->join_in_graph(stream);
    capture_ = Capture::kEnded;
    return;
  }
  with_device([&] {
    HORO_CHECK(!device_->is_captured(stream),
               "wait_on() on a stream that is being captured: capture the step with "
               "GradientSync::capture()");
  });
  finish_exchange();
  with_device([&] { device_->join(stream); });
  // The time of a step is that of the device.
  if (parts_.hooks.tuning->is_searching()) await_device();
  for (StepHook* hook : hooks_) hook->end_step(*this, report_);
}

// Waits without run_mutex_, because the plan's thread needs it to detect a failure. An error of
// this wait, for example a timeout, fails the plan. The last poll makes the counters and the flight
// recorder include the step.
void BucketScheduler::await_device() {
  const metrics::Blocked blocked(meter_.rank_meter());
  with_device([&] { device_->await([&] { return has_error_.load(); }); });
  check();
  if (has_in_flight()) poll();
  check();
}

void BucketScheduler::drain() {
  while (has_in_flight() && !has_error_) std::this_thread::sleep_for(kPollInterval);
}

// Returns false after an error.
bool BucketScheduler::poll() {
  const std::scoped_lock lock(run_mutex_);
  if (error_ == nullptr) record_errors(0, [&] { device_->poll(); });
  return error_ == nullptr;
}

// Called by the thread at its end. Exchanges of complete steps end. Those of an incomplete step
// cannot end if other ranks do not take part in it, so they are abandoned.
void BucketScheduler::finish_in_flight() {
  while (has_in_flight() || next_ > 0) {
    {
      const std::scoped_lock lock(run_mutex_);
      if (error_ != nullptr) return;
      record_errors(0, [&] {
        if (next_ > 0 && device_->is_only_current_in_flight())
          throw ShutdownError("the plan was destroyed in an incomplete step");
        device_->poll();
      });
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

void BucketScheduler::begin_bucket(std::size_t bucket) {
  flight_->start(bucket);
  meter_.begin_exchange();
}

void BucketScheduler::end_bucket(std::size_t bucket, bool is_skipped) {
  flight_->finish(bucket, true);
  meter_.end_exchange(is_skipped ? 0 : buckets_[bucket]->bytes);
  if (!is_skipped) callbacks_.count(buckets_[bucket]->bytes, buckets_[bucket]->tensors);
}

void BucketScheduler::end_step() {
  flight_->end_step();
  callbacks_.end_step();
}

// Throws unless no gradient of the next step is marked. The plan's thread then exchanges nothing.
void BucketScheduler::require_step_boundary(const char* what) {
  require_no_error();
  HORO_CHECK(capture_ == Capture::kNone,
             std::string(what) + "() must not be called in a step that is being captured");
  HORO_CHECK(
      !marks_.is_any_marked() && !marks_.has_earlier_marks(),
      std::string(what) + "() must be called between steps: end the step with wait_on() or wait()");
}

// While a step is captured, the plan's thread exchanges nothing. The threads that call mark() add
// the exchanges to the graph. `step` runs without run_mutex_, because mark() locks it.
std::unique_ptr<CapturedStep> BucketScheduler::capture(void* stream,
                                                       const std::function<void()>& step) {
  device_->require_capturable();
  const StepHooks& hooks = parts_.hooks;
  HORO_CHECK(hooks.unused == nullptr && !is_held_,
             "capture(): a step with find_unused or several passes cannot be captured; the host "
             "takes part in it");
  HORO_CHECK(!hooks.tuning->is_searching() && (hooks.order == nullptr || hooks.order->is_done()),
             "capture(): the buckets still change because of autotune or reorder; run more steps "
             "first (GradientSync::is_tuning())");
  require_step_boundary("capture");
  caller_exchanges_ = true;
  capture_ = Capture::kMarking;
  const auto end = [&] {
    const std::scoped_lock lock(run_mutex_);
    // Removes the marks that `step` has set, because the capture does not count as a step.
    marks_.end_step();
    device_->drop_marks();
    reset_buckets();
    capture_ = Capture::kNone;
    caller_exchanges_ = false;
  };
  try {
    auto captured = device_->capture(stream, [&] {
      step();
      HORO_CHECK(capture_ == Capture::kEnded, "capture(): the step must end with wait_on()");
    });
    end();
    ++captured_steps_;
    return captured;
  } catch (...) {
    end();
    throw;
  }
}

// Adds bucket next_ to the graph as soon as it is complete, so the graph has the buckets in plan
// order. A CommunicationError fails the plan. Other errors end only the capture.
void BucketScheduler::mark_in_capture(std::size_t bucket) {
  const std::scoped_lock lock(run_mutex_);
  buckets_[bucket]->missing.fetch_sub(1);
  while (is_next_complete()) {
    const std::size_t index = next_++;
    try {
      device_->exchange_in_graph(index);
    } catch (const CommunicationError&) {
      set_error(index, device_->fail());
      std::rethrow_exception(error_);
    }
  }
}

// The host does not see when the graph produces each gradient, so all gradients are recorded as
// marked and all buckets as complete at once.
void BucketScheduler::launch(CapturedStep& step) {
  require_step_boundary("launch");
  with_device([&] {
    HORO_CHECK(!device_->is_captured(step.native()),
               "launch() on a stream that is being captured: a graph cannot contain another graph");
  });
  {
    const std::unique_lock lock = lock_as_caller();
    if (error_ == nullptr) record_errors(0, [&] { device_->launch(step); });
    require_no_error();
    for (std::size_t i = 0; i < marks_.size(); ++i) flight_->mark_in_step(i, steps_);
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      flight_->first(b);
      flight_->complete(b);
    }
    report_ = {.was_exchanged = true, .total_weight = static_cast<double>(topology_.size)};
    is_report_complete_ = false;
    ++steps_;
  }
  wake();
}

void BucketScheduler::wait(const CapturedStep& step) {
  with_device([&] { device_->await(step, [&] { return has_error_.load(); }); });
  check();
}

// The plan's thread polls the events of `step` while its launches are in flight. Launches end in
// order, so the latest one ends last.
void BucketScheduler::release(const CapturedStep& step) noexcept {
  --captured_steps_;
  while (true) {
    {
      const std::scoped_lock lock(run_mutex_);
      if (error_ != nullptr || !device_->is_in_flight(step)) return;
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

}  // namespace horo::plan
