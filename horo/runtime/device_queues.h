#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "horo/coordinator/device_operation_queue.h"
#include "horo/coordinator/entry.h"
#include "horo/device/device.h"

namespace horo {

class Runtime;

/// The queues for named operations on tensors in device memory, one for each device that this rank
/// has used with a Runtime. Thread-safe.
class DeviceQueues {
 public:
  /// `runtime` must outlive this object.
  explicit DeviceQueues(Runtime& runtime) : runtime_(runtime) {}

  /// Prepares an entry for submission. If its tensors are in device memory, checks the arguments
  /// that only devices restrict, and makes Entry::on_device, which starts after the work that is
  /// now enqueued on `stream`. Throws InvalidArgument with the name of the operation if an argument
  /// is invalid, if the tensors are in different memories, or if `stream` is given for host memory.
  void prepare(coordinator::Entry& entry, void* stream);
  /// Calls DeviceOperationQueue::close() for all queues. Call it after the coordinator has ended.
  void close();
  /// Leaks the queues. For a child process of fork(), which does not have the threads of the
  /// queues.
  void leak() noexcept;

 private:
  // Returns null after close().
  std::shared_ptr<coordinator::DeviceOperationQueue> queue_of(device::Device& device);

  Runtime& runtime_;
  std::mutex mutex_;  // guards the members below
  std::vector<std::shared_ptr<coordinator::DeviceOperationQueue>> queues_;
  bool is_closed_ = false;
};

}  // namespace horo
