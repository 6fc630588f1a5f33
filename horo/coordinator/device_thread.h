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
#include "horo/base/device/device.h"
#include "horo/base/topology.h"
#include "horo/coordinator/device_watch.h"
#include "horo/coordinator/plan_waits.h"

namespace horo::coordinator {

/// A thread that gives a device work that the ranks do together, in the order in which all of them
/// do, and watches over what is under way there. The first error, of the thread or of a caller,
/// ends all of it, and the job. A derived class says what the work is: its functions are called
/// with mutex_ held, those without another word by the thread.
class DeviceThread {
 public:
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

 protected:
  /// What the device has been given, and is not known to have done.
  struct UnderWay {
    const device::Event *begun = nullptr, *done = nullptr;         // null: nothing is done to it
    std::optional<std::chrono::steady_clock::time_point> since{};  // the device is at it
  };

  /// `device` and `collectives` (null: of one rank, alone) outlive the thread.
  DeviceThread(device::Device& device, const PlanWaits& waits,
               collectives::DeviceCollectives* collectives, const Topology& topology,
               EndJob end_job);
  virtual ~DeviceThread() = default;

  /// Begins the thread, once the derived class is made.
  void start();
  /// Ends it, before the derived class goes: when there is no work left. `lock` is mutex_'s.
  void stop(std::unique_lock<std::mutex> lock);

  virtual bool has_next() const = 0;
  /// Gives the device what comes next, without `lock`. What goes wrong is told to fail().
  virtual void give_next(std::unique_lock<std::mutex>& lock) = 0;
  /// Null: nothing is under way.
  virtual UnderWay* oldest() = 0;
  /// The device has come to the oldest.
  virtual void begin_oldest() = 0;
  /// It has done it: the next one is the oldest.
  virtual void end_oldest() = 0;
  /// What the device has to do there: "exchange bucket 3".
  virtual std::string duty_of_oldest() const = 0;
  /// What the work ends with that stop() finds in the middle; null if it does not.
  virtual std::exception_ptr unfinished() const { return nullptr; }
  /// What errors call the oldest, or else the next: "allreduce 'x'". By any thread, as what
  /// follows.
  virtual std::string work_at_hand() const = 0;
  /// Tells the recorder why the rank has failed, before drop_work(); or, with an empty text, that
  /// the work is given up.
  virtual void record_failure(std::string_view why) noexcept = 0;
  /// Ends all work with error_.
  virtual void drop_work() noexcept = 0;

  // All of these require mutex_.
  /// The program's stream `native`.
  device::Stream& stream_of(void* native);
  /// Whether that is being captured: a caller's question, as what follows.
  bool is_captured(void* native);
  /// What the device says in `work` is the error of all work too; InvalidArgument is the caller's.
  void with_device(const std::function<void()>& work);
  /// Throws the error, if there is one by now.
  void require_no_error();
  /// The first error stays, and is the job's. It was met in `work`; empty: work_at_hand().
  void fail(const std::exception_ptr& error, std::string_view work = {}) noexcept;

  device::Device& device_;
  const WaitPolicy policy_;  // of a caller
  const DeviceWatch watch_;

  mutable std::mutex mutex_;  // guards all below, and what the derived class says
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
