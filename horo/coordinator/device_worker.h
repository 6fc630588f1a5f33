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
/// the work that is in flight there. The first error, of the thread or of a caller, ends all work
/// and aborts the job. A derived class defines the work. Its virtual functions are called with
/// mutex_ held, by the thread unless noted otherwise.
class DeviceWorker {
 public:
  DeviceWorker(const DeviceWorker&) = delete;
  DeviceWorker& operator=(const DeviceWorker&) = delete;

 protected:
  /// Work that the device has received and is not known to have completed.
  struct UnderWay {
    const device::Event *begun = nullptr, *done = nullptr;         // null: no work on the device
    std::optional<std::chrono::steady_clock::time_point> since{};  // when the device began it
  };

  /// `device` and `collectives` (null for one rank) must outlive the thread.
  DeviceWorker(device::Device& device, const PlanWaits& waits,
               collectives::DeviceCollectives* collectives, const Topology& topology,
               EndJob end_job);
  virtual ~DeviceWorker() = default;

  /// Starts the thread. Called at the end of the constructor of the derived class.
  void start();
  /// Waits until no work is left, then joins the thread. Called at the start of the destructor of
  /// the derived class. `lock` holds mutex_.
  void stop(std::unique_lock<std::mutex> lock);

  virtual bool has_next() const = 0;
  /// Enqueues the next work on the device. May release `lock` meanwhile. Reports errors by fail().
  virtual void launch_next(std::unique_lock<std::mutex>& lock) = 0;
  /// The oldest work in flight; null if there is none.
  virtual UnderWay* oldest() = 0;
  /// Called when the device has started the oldest work.
  virtual void begin_oldest() = 0;
  /// Called when the device has completed the oldest work. Removes that work.
  virtual void end_oldest() = 0;
  /// A text for errors that describes the oldest work: "exchange bucket 3".
  virtual std::string describe_oldest() const = 0;
  /// The error for work that is incomplete when stop() is called; null if stop() may wait for the
  /// work.
  virtual std::exception_ptr unfinished() const { return nullptr; }
  /// Names the oldest work in errors, or the next work if none is in flight: "allreduce 'x'".
  /// Called by any thread, as are the functions below.
  virtual std::string describe_current() const = 0;
  /// Records why the rank has failed, before drop_work(). An empty text means that the work was
  /// cancelled.
  virtual void record_failure(std::string_view why) noexcept = 0;
  /// Ends all work with error_.
  virtual void drop_work() noexcept = 0;

  // All of these require mutex_.
  /// The object for the program's stream `native`.
  device::Stream& stream_of(void* native);
  /// Whether `native` is being captured. The threads that use this object call this function and
  /// the next two. The worker's thread does not.
  bool is_captured(void* native);
  /// Runs `work`. An error of the device fails all work. InvalidArgument is only the caller's
  /// error.
  void with_device(const std::function<void()>& work);
  /// Throws the error of the work, if there is one.
  void require_no_error();
  /// Fails all work with `error`, which occurred in `work` (empty: describe_current()), and aborts
  /// the job. Later errors are ignored. Called by any thread.
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
