#pragma once

#include <chrono>
#include <exception>
#include <string_view>

#include "collectives/device/device_collectives.h"
#include "horo/base/device/device.h"
#include "horo/base/wait.h"

namespace horo::coordinator {

/// Whether the work that ranks do together on their devices can still come to its end: what the
/// device does not say itself. Thread-safe.
class DeviceWatch {
 public:
  /// All outlive this. `collectives` null: of one rank, alone.
  DeviceWatch(const WaitPolicy& policy, const device::Device& device,
              const collectives::DeviceCollectives* collectives)
      : policy_(policy), device_(device), collectives_(collectives) {}

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

 private:
  std::chrono::nanoseconds waited(std::chrono::steady_clock::time_point since) const {
    return policy_.time_since(since, std::chrono::steady_clock::now());
  }
  bool is_aborted() const { return policy_.abort != nullptr && policy_.abort->is_raised(); }

  const WaitPolicy& policy_;
  const device::Device& device_;
  const collectives::DeviceCollectives* collectives_;
};

}  // namespace horo::coordinator
