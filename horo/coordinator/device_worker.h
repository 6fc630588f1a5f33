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

/// A thread that enqueues collective work on a device, in the same order on all ranks, and tracks
/// the work in flight. The first error of the thread or of a caller ends all work.
/// DeviceWatch::end_job() determines whether the error also aborts the job. A derived class defines
/// the work. The virtual functions are called with mutex_ held. The thread calls them unless noted
/// otherwise.
class DeviceWorker {
 public:
  DeviceWorker(const DeviceWorker&) = delete;
  DeviceWorker& operator=(const DeviceWorker&) = delete;

 protected:
  /// Work that the device has received. The thread has not yet observed that the work is complete.
  struct UnderWay {
    const device::Event *begun = nullptr, *done = nullptr;  // null if the device has nothing to do
    // The start of the timeout. Empty until the thread has observed that the device began the work.
    std::optional<std::chrono::steady_clock::time_point> since{};
  };

  /// `device` and `collectives` (null for one rank) must outlive the thread.
  DeviceWorker(device::Device& device, const PlanWaits& waits,
               collectives::DeviceCollectives* collectives, const Topology& topology,
               EndJob end_job);
  virtual ~DeviceWorker() = default;

  /// Starts the thread. The constructor of the derived class must call start() as its last
  /// statement.
  void start();
  /// Waits until no work is left or the work has failed, then joins the thread. The derived class
  /// must call stop() before any of its members is destroyed. `lock` must hold mutex_.
  void stop(std::unique_lock<std::mutex> lock);

  virtual bool has_next() const = 0;
  /// Enqueues the next work on the device. May release `lock` meanwhile. Must report errors by
  /// fail().
  virtual void launch_next(std::unique_lock<std::mutex>& lock) = 0;
  /// Returns the oldest work in flight, or null if no work is in flight.
  virtual UnderWay* oldest() = 0;
  /// Called when the device has started the oldest work.
  virtual void begin_oldest() = 0;
  /// Called when the device has completed the oldest work. Must remove that work.
  virtual void end_oldest() = 0;
  /// Returns a text for errors that describes the oldest work, for example "exchange bucket 3".
  virtual std::string describe_oldest() const = 0;
  /// Called during stop() when has_next() is false. Returns an error if the thread must fail
  /// incomplete work. Returns null if stop() may wait for the work.
  virtual std::exception_ptr unfinished() const { return nullptr; }
  /// Returns the name of the oldest work for errors, for example "allreduce 'x'". If no work is in
  /// flight, returns the name of the next work. Any thread may call this function and the virtual
  /// functions below.
  virtual std::string describe_current() const = 0;
  /// Records why the rank has failed. Called before drop_work(). `why` is empty if the error is not
  /// a CommunicationError, for example if the work was cancelled.
  virtual void record_failure(std::string_view why) noexcept = 0;
  /// Ends all work with error_.
  virtual void drop_work() noexcept = 0;

  // The functions below require mutex_.
  /// Returns the object for the program's stream `native`.
  device::Stream& stream_of(void* native);
  /// Returns whether `native` is being captured. The threads of the program call is_captured(),
  /// with_device() and require_no_error(). The worker's thread does not call them.
  bool is_captured(void* native);
  /// Runs `work` and throws its error. InvalidArgument does not affect other work. Every other
  /// Error fails all work.
  void with_device(const std::function<void()>& work);
  /// Throws the error of the work, if the work has failed. Also detects failures that the thread
  /// has not observed yet.
  void require_no_error();
  /// Fails all work with `error`, which occurred in `work`, and calls DeviceWatch::end_job(). If
  /// `work` is empty, uses describe_current(). Only the first error counts as the error of the
  /// work. Any thread may call fail().
  void fail(const std::exception_ptr& error, std::string_view work = {}) noexcept;

  device::Device& device_;
  const WaitPolicy policy_;  // for waits of callers
  const DeviceWatch watch_;

  mutable std::mutex mutex_;  // guards the members below and the virtual functions
  std::condition_variable changed_;
  std::unordered_map<void*, std::unique_ptr<device::Stream>> streams_;
  std::exception_ptr error_;
  bool should_stop_ = false;

 private:
  void run(const std::string& label);
  void look_at_device();

  collectives::DeviceCollectives* const collectives_;
  std::jthread thread_;
};

}  // namespace horo::coordinator
