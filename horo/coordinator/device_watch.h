#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "collectives/device/device_collectives.h"
#include "horo/base/device/device.h"
#include "horo/base/topology.h"
#include "horo/base/wait.h"

namespace horo::coordinator {

/// Tells the other ranks of the job why this one cannot go on: their waits end with that text. Does
/// not wait.
using EndJob = std::function<void(const std::string& why)>;

/// Whether the work that ranks do together on their devices can still come to its end, which the
/// device does not say itself, and what becomes of the ranks if not. Thread-safe.
class DeviceWatch {
 public:
  /// `policy`, `device` and `collectives` (null: there are none) outlive this. `topology`: of the
  /// ranks that do the work.
  DeviceWatch(const WaitPolicy& policy, const device::Device& device,
              const collectives::DeviceCollectives* collectives, const Topology& topology,
              EndJob end_job)
      : policy_(policy),
        device_(device),
        collectives_(collectives),
        rank_(topology.describe(topology.rank)),
        is_alone_(topology.size == 1),
        end_job_(std::move(end_job)) {}

  /// Whether the job ends, or the collectives have failed. Never blocks.
  bool has_failed() const;
  /// Of several errors the one that says most: why the job ends, what the collectives say, what the
  /// device says. Null if there is none. The device's is the exception that is being handled.
  std::exception_ptr error() const;
  /// Whether the device has been at it since `since` for longer than HORO_TIMEOUT allows.
  bool is_overdue(std::chrono::steady_clock::time_point since) const;
  /// The CommunicationError of that. `work`: "exchange bucket 3".
  std::exception_ptr overdue_error(std::chrono::steady_clock::time_point since,
                                   std::string_view work) const;
  /// Ends the job for `error`, which this rank has met in `work` ("allreduce 'x'"): the others wait
  /// for it. Returns what it ends with itself: what all ranks do, the CommunicationError of the
  /// first that failed. A rank alone, and work that was given up on purpose, end with `error`.
  /// Where only the collectives say that something is wrong, it may be that another node's rank has
  /// failed: this waits up to 2 s for the job to say so.
  std::exception_ptr end_job(const std::exception_ptr& error, std::string_view work) const;

 private:
  std::chrono::nanoseconds waited(std::chrono::steady_clock::time_point since) const {
    return policy_.time_since(since, std::chrono::steady_clock::now());
  }
  bool is_given_up() const { return policy_.cancelled != nullptr && *policy_.cancelled; }
  void await_abort() const;
  bool is_aborted() const { return policy_.abort != nullptr && policy_.abort->is_raised(); }

  const WaitPolicy& policy_;
  const device::Device& device_;
  const collectives::DeviceCollectives* collectives_;
  const std::string rank_;
  const bool is_alone_;
  const EndJob end_job_;
};

}  // namespace horo::coordinator
