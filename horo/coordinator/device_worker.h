#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>

#include "collectives/device/device_collectives.h"
#include "horo/base/topology.h"
#include "horo/coordinator/device_watch.h"
#include "horo/coordinator/plan_waits.h"
#include "horo/device/device.h"

namespace horo::coordinator {

/// Owns a thread that enqueues collective work on a device and tracks the work in flight. The
/// derived class defines the work and its order, which must be the same on all ranks. The first
/// error ends all work; see fail(). The virtual functions are called with mutex_ held, and only by
/// the thread unless noted otherwise.
class DeviceWorker {
 public:
  DeviceWorker(const DeviceWorker&) = delete;
  DeviceWorker& operator=(const DeviceWorker&) = delete;

 protected:
  /// Work that is enqueued on the device, until the thread has observed that the work is complete.
  struct UnderWay {
    const device::Event *begun = nullptr, *done = nullptr;  // null if the device has nothing to do
    // The start of the timeout. If empty, the thread sets `since` when it observes that the device
    // has begun the work.
    std::optional<std::chrono::steady_clock::time_point> since{};
  };

  /// `device` and `waits` must outlive the thread and all waits of callers.
  DeviceWorker(device::Device& device, const PlanWaits& waits, const Topology& topology,
               EndJob end_job);
  virtual ~DeviceWorker() = default;

  /// Starts the thread. The derived class must be completely constructed. `collectives` are those
  /// of the work, or null if there are none. They must outlive the thread and all waits of callers.
  void start(collectives::DeviceCollectives* collectives);
  /// Waits until no work is left or all work has failed, and joins the thread if start() was
  /// called. The derived class must call stop() before any of its members is destroyed. `lock` must
  /// hold mutex_.
  void stop(std::unique_lock<std::mutex> lock);

  /// Returns whether launch_next() has work to enqueue.
  virtual bool has_next() const = 0;
  /// Enqueues the next work on the device. May release `lock` meanwhile. Must not throw; it must
  /// pass errors to fail().
  virtual void launch_next(std::unique_lock<std::mutex>& lock) = 0;
  /// Returns the oldest work in flight, or null if no work is in flight.
  virtual UnderWay* oldest() = 0;
  /// Called after the thread has observed that the device has begun the oldest work. Not called if
  /// launch_next() has set `since` of that work.
  virtual void begin_oldest() = 0;
  /// Called after the thread has observed that the device has completed the oldest work. Must
  /// remove that work.
  virtual void end_oldest() = 0;
  /// Returns the text `work` of DeviceWatch::overdue_error() for the oldest work, for example
  /// "exchange bucket 3".
  virtual std::string describe_oldest() const = 0;
  /// Returns whether run_callbacks() has callbacks to run.
  virtual bool has_callbacks() const { return false; }
  /// Runs the callbacks of ended work. Must release `lock` meanwhile.
  virtual void run_callbacks(std::unique_lock<std::mutex>& /*lock*/) {}
  /// Called once after the first error. May wait until the device no longer executes the dropped
  /// work, and free the collectives. Must release `lock` meanwhile.
  virtual void release_device(std::unique_lock<std::mutex>& /*lock*/) {}
  /// Returns the name of the current work for errors, for example "allreduce 'x'". Any thread may
  /// call this function and the virtual functions below.
  virtual std::string describe_current() const = 0;
  /// Records that the work has failed. Called once, before drop_work(). `why` is the text of the
  /// error if the error is a CommunicationError. Otherwise `why` is empty, for example if the work
  /// was cancelled.
  virtual void record_failure(std::string_view why) noexcept = 0;
  /// Ends all work with error_.
  virtual void drop_work() noexcept = 0;

  // The caller of the functions below must hold mutex_.
  /// Makes the worker stop using the collectives, which may then be destroyed.
  void forget_collectives() {
    collectives_ = nullptr;
    watch_.watch(nullptr);
  }
  /// Returns the object for the program's stream `native`.
  device::Stream& stream_of(void* native);
  /// Returns whether the stream `native` is being captured. Throws as with_device() does.
  bool is_captured(void* native);
  /// Runs `work`. If `work` throws InvalidArgument, rethrows it. If `work` throws another Error,
  /// calls fail() and throws the error of the worker.
  void with_device(const std::function<void()>& work);
  /// Throws the error of the worker if there is one. Also detects failures that the thread has not
  /// observed yet.
  void require_no_error();
  /// Ends all work with the error of the worker. The first call sets this error to the result of
  /// DeviceWatch::end_job(error, work), which may abort the job, and aborts the collectives. If
  /// `work` is empty, uses describe_current(). A later call ends work that was added since. Any
  /// thread may call fail(). Blocks with mutex_ held while end_job() blocks.
  void fail(const std::exception_ptr& error, std::string_view work = {}) noexcept;

  device::Device& device_;
  const WaitPolicy policy_;  // for waits of callers
  DeviceWatch watch_;

  mutable std::mutex mutex_;  // guards the members below and the virtual functions
  std::condition_variable changed_;
  std::unordered_map<void*, std::unique_ptr<device::Stream>> streams_;
  // The error of the worker. Null until the first fail().
  std::exception_ptr error_;
  bool should_stop_ = false;

 private:
  void run(const std::string& label);
  void look_at_device();

  collectives::DeviceCollectives* collectives_ = nullptr;
  std::jthread thread_;
};

}  // namespace horo::coordinator
