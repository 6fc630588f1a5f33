#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "collectives/device/device_collectives.h"
#include "horo/base/topology.h"
#include "horo/base/wait.h"
#include "horo/device/device.h"

namespace horo::coordinator {

/// Aborts the job with the reason `why`: the waits of all ranks end with that text. Does not wait.
using EndJob = std::function<void(const std::string& why)>;

/// Detects that collective work on a device cannot complete. The device does not report this by
/// itself. Determines the error with which the ranks end. Thread-safe.
class DeviceWatch {
 public:
  /// `policy`, `device` and `collectives` (null if there are none) must outlive this object.
  /// `topology`: the ranks that take part in the work.
  DeviceWatch(const WaitPolicy& policy, const device::Device& device,
              const collectives::DeviceCollectives* collectives, const Topology& topology,
              EndJob end_job)
      : policy_(policy),
        device_(device),
        collectives_(collectives),
        rank_(topology.describe(topology.rank)),
        is_alone_(topology.size == 1),
        end_job_(std::move(end_job)) {}

  /// Whether the job was aborted or the collectives have failed. Does not block.
  bool has_failed() const;
  /// The most informative error: the reason of the abort, or else the error of the collectives, or
  /// else the exception that is being handled, which the device has thrown. Null if there is none.
  std::exception_ptr error() const;
  /// Whether work that the device began at `since` has timed out.
  bool is_overdue(std::chrono::steady_clock::time_point since) const;
  /// The CommunicationError for overdue work. `work`: "exchange bucket 3".
  std::exception_ptr overdue_error(std::chrono::steady_clock::time_point since,
                                   std::string_view work) const;
  /// Aborts the job because of `error`, which occurred on this rank in `work` ("allreduce 'x'").
  /// Returns the error for this rank: the CommunicationError of the first rank that failed, as on
  /// all ranks. In a job of one rank, and for cancelled work, returns `error`. If only the
  /// collectives report a failure, a rank of another node may have caused the failure. In that
  /// case, the function waits up to 2 s for the abort signal, whose text names the cause.
  std::exception_ptr end_job(const std::exception_ptr& error, std::string_view work) const;

 private:
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
