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

/// Aborts the job with the reason `why`, unless the job has ended or was aborted before. The abort
/// ends the waits of all ranks. Does not wait for the other ranks.
using EndJob = std::function<void(const std::string& why)>;

/// Detects failures of collective work that the device itself does not report: an abort of the job,
/// an error of the collectives, and a timeout. Also determines the error that this rank throws.
/// Thread-safe, except that no other function may run during watch().
class DeviceWatch {
 public:
  /// `policy` and `device` must outlive this object. `topology` describes the ranks that take part
  /// in the work.
  DeviceWatch(const WaitPolicy& policy, const device::Device& device, const Topology& topology,
              EndJob end_job)
      : policy_(policy),
        device_(device),
        rank_(topology.describe(topology.rank)),
        is_alone_(topology.size == 1),
        end_job_(std::move(end_job)) {}

  /// From now on, also detects errors of `collectives`, which must outlive this object. May be
  /// null.
  void watch(const collectives::DeviceCollectives* collectives) { collectives_ = collectives; }
  /// Returns whether the job was aborted or the collectives have failed. Does not block.
  bool has_failed() const;
  /// Returns the most informative error. If the job was aborted, returns a CommunicationError with
  /// the reason of the abort. Otherwise, if the collectives have failed, returns a
  /// CommunicationError with the text of their failure. Otherwise returns the exception that is
  /// being handled, or null outside of a handler.
  std::exception_ptr error() const;
  /// Returns whether work that the device began at `since` has timed out according to the policy.
  bool is_overdue(std::chrono::steady_clock::time_point since) const;
  /// Returns the CommunicationError for overdue work, such as "waited 5 min for DEVICE to WORK".
  /// `work` completes this text, for example "exchange bucket 3".
  std::exception_ptr overdue_error(std::chrono::steady_clock::time_point since,
                                   std::string_view work) const;
  /// Returns the error that this rank must throw because of `error`, which occurred on this rank in
  /// `work`, for example "allreduce 'x'". May abort the job. Checks these cases in order:
  /// - The job was aborted before: returns a CommunicationError with the reason of that abort.
  /// - Only one rank takes part, the work is cancelled, or `error` is a ShutdownError: returns
  ///   `error`.
  /// - The job has already ended: returns `error`.
  /// - All other cases: aborts the job because of `error`, and returns a CommunicationError with
  ///   the reason of the abort.
  ///
  /// If the collectives have failed, but not the device of this rank, another rank may have caused
  /// the failure. In that case, waits up to 2 s for the abort signal of that rank before it aborts
  /// the job.
  std::exception_ptr end_job(const std::exception_ptr& error, std::string_view work) const;

 private:
  bool is_given_up() const { return policy_.cancelled != nullptr && *policy_.cancelled; }
  void await_abort() const;
  bool is_aborted() const { return policy_.abort != nullptr && policy_.abort->is_raised(); }

  const WaitPolicy& policy_;
  const device::Device& device_;
  const collectives::DeviceCollectives* collectives_ = nullptr;
  const std::string rank_;
  const bool is_alone_;
  const EndJob end_job_;
};

}  // namespace horo::coordinator
