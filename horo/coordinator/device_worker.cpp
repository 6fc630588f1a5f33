#include "horo/coordinator/device_worker.h"

#include <utility>

#include "horo/base/error.h"
#include "horo/base/system/threads.h"
#include "horo/base/text/log.h"

namespace horo::coordinator {
namespace {

using std::chrono::steady_clock;

// The interval at which the thread polls the device while work is in flight.
constexpr std::chrono::microseconds kLookInterval{100};

}  // namespace

DeviceWorker::DeviceWorker(device::Device& device, const PlanWaits& waits, const Topology& topology,
                           EndJob end_job)
    : device_(device),
      policy_(waits.of_caller),
      watch_(policy_, device, topology, std::move(end_job)) {}

// The derived object must be complete here, because the thread calls the virtual functions. Other
// threads may already call fail(), so the collectives are set under the lock.
void DeviceWorker::start(collectives::DeviceCollectives* collectives) {
  {
    const std::scoped_lock lock(mutex_);
    collectives_ = collectives;
    watch_.watch(collectives);
  }
  thread_ = std::jthread([this, label = log_label()] { run(label); });
}

// No member of the derived object may be destroyed before this call, because the thread calls the
// virtual functions until the end of the thread.
void DeviceWorker::stop(std::unique_lock<std::mutex> lock) {
  should_stop_ = true;
  lock.unlock();
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

device::Stream& DeviceWorker::stream_of(void* native) {
  std::unique_ptr<device::Stream>& stream = streams_[native];
  if (stream == nullptr) stream = device_.borrow_stream(native);
  return *stream;
}

bool DeviceWorker::is_captured(void* native) {
  bool is_captured = false;
  with_device([&] { is_captured = stream_of(native).captured_in() != nullptr; });
  return is_captured;
}

// An error of the device affects all work, but an InvalidArgument affects only the caller. Calls
// watch_.error() inside the handler; see DeviceWatch::error().
void DeviceWorker::with_device(const std::function<void()>& work) {
  try {
    work();
  } catch (const InvalidArgument&) {
    throw;
  } catch (const Error&) {
    fail(watch_.error());
    std::rethrow_exception(error_);
  }
}

void DeviceWorker::require_no_error() {
  if (error_ == nullptr && watch_.has_failed()) fail(watch_.error());
  if (error_ != nullptr) std::rethrow_exception(error_);
}

// Records the reason before drop_work() ends the work, because a caller that then wakes up may end
// the process.
void DeviceWorker::fail(const std::exception_ptr& error, std::string_view work) noexcept {
  if (error_ == nullptr) {
    error_ = error;
    try {
      error_ = watch_.end_job(error, work.empty() ? describe_current() : std::string(work));
      std::rethrow_exception(error_);
    } catch (const CommunicationError& failure) {
      record_failure(failure.what());
      if (collectives_ != nullptr) collectives_->abort(failure.what());
    } catch (const std::exception& failure) {
      record_failure({});
      if (collectives_ != nullptr) collectives_->abort(failure.what());
    }
  }
  drop_work();
  changed_.notify_all();
}

// The device completes the work in the order in which it was enqueued, so the function polls only
// the oldest work.
void DeviceWorker::look_at_device() {
  try {
    for (UnderWay* work = oldest(); work != nullptr; work = oldest()) {
      if (!work->since) {
        if (work->begun != nullptr && !work->begun->is_done()) break;
        // The timeout starts here, so it does not include earlier work of the program on the
        // device.
        work->since = steady_clock::now();
        begin_oldest();
      }
      // After a failure, does not mark the work as complete, because the result may be wrong.
      if ((work->done != nullptr && !work->done->is_done()) || watch_.has_failed()) break;
      end_oldest();
    }
  } catch (const Error&) {
    return fail(watch_.error());
  }
  if (watch_.has_failed()) return fail(watch_.error());
  const UnderWay* work = oldest();
  if (work != nullptr && work->since && watch_.is_overdue(*work->since))
    fail(watch_.overdue_error(*work->since, describe_oldest()));
}

// The device has no call that waits for either an event or new work. Therefore the thread polls
// while work is in flight. Without work, the thread sleeps until changed_ is notified. After an
// error, it only runs callbacks. Holds mutex_ except while it waits for changed_ and where
// launch_next() and run_callbacks() release the lock.
void DeviceWorker::run(const std::string& label) {
  set_log_label(label);
  ask_for_short_slices();
  std::unique_lock lock(mutex_);
  try {
    device_.serve_thread();
  } catch (const DeviceError&) {
    fail(std::current_exception());
  }
  bool is_released = false;
  while (true) {
    if (error_ == nullptr) look_at_device();
    if (has_callbacks()) {
      run_callbacks(lock);
      continue;
    }
    if (error_ != nullptr && !std::exchange(is_released, true)) {
      release_device(lock);
      continue;
    }
    if (error_ != nullptr) {
      if (should_stop_) return;
      changed_.wait(lock, [&] { return should_stop_ || has_callbacks(); });
      continue;
    }
    if (has_next()) {
      launch_next(lock);
      continue;
    }
    if (should_stop_ && oldest() == nullptr) return;
    if (oldest() != nullptr)
      changed_.wait_for(lock, kLookInterval);
    else
      changed_.wait(lock, [&] {
        return should_stop_ || error_ != nullptr || has_callbacks() || has_next() ||
               oldest() != nullptr;
      });
  }
}

}  // namespace horo::coordinator
