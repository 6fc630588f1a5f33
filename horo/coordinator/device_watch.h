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

/// Aborts the job with the reason `why`. The waits of all ranks then end with an error of that
/// text. Does not wait for the other ranks.
using EndJob = std::function<void(const std::string& why)>;

/// Detects that collective work on a device cannot complete, because the device itself does not
/// report this condition. Determines the error that this rank throws. Thread-safe.
class DeviceWatch {
 public:
  /// `policy`, `device` and `collectives` (null if there are none) must outlive this object.
  /// `topology` describes the ranks that take part in the work.
  DeviceWatch(const WaitPolicy& policy, const device::Device& device,
              const collectives::DeviceCollectives* collectives, const Topology& topology,
              EndJob end_job)
      : policy_(policy),
        device_(device),
        collectives_(collectives),
        rank_(topology.describe(topology.rank)),
        is_alone_(topology.size == 1),
        end_job_(std::move(end_job)) {}

  /// Returns whether the job was aborted or the collectives have failed. Does not block.
  bool has_failed() const;
  /// Returns the most informative error. If the job was aborted, returns an error with the reason
  /// of the abort. Otherwise, if the collectives have failed, returns their error. Otherwise,
  /// returns the exception that is being handled, or null outside of a handler.
  std::exception_ptr error() const;
  /// Returns whether work that the device began at `since` has timed out.
  bool is_overdue(std::chrono::steady_clock::time_point since) const;
  /// Returns the CommunicationError for overdue work. `work` describes the work, for example
  /// "exchange bucket 3".
  std::exception_ptr overdue_error(std::chrono::steady_clock::time_point since,
                                   std::string_view work) const;
  /// Aborts the job because of `error`, which occurred on this rank in `work`, for example
  /// "allreduce 'x'". Returns the error that this rank must throw. On all ranks, this error has the
  /// text of the first rank that failed. If the job is not aborted yet, the function does not abort
  /// the job for work of one rank, for cancelled work, or for a ShutdownError. In these cases, the
  /// function returns `error`. If `error` comes from the collectives and not from the device,
  /// another rank may have caused the failure. In that case, the function first waits up to 2 s for
  /// the abort signal, whose text names the cause.
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
