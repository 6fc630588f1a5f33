#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace horo {

namespace coordinator {
class Completion;
class DeviceOperation;
}  // namespace coordinator

/// The future result of a DeviceOperations operation. Copies share it. The operation has two
/// stages: the ranks agree on it and it is enqueued on the device, then the device runs it.
/// Thread-safe; functions may be called any number of times. May outlive the DeviceOperations.
class [[nodiscard]] DeviceHandle {
 public:
  DeviceHandle() = default;
  DeviceHandle(std::shared_ptr<coordinator::DeviceOperation> operation,
               std::shared_ptr<coordinator::Completion> completion);

  /// Later work of `stream` starts after the operation. Blocks until the operation is enqueued on
  /// the device, not until it has run. After that, its name may be used again. If the operation
  /// fails on the device, the stream works with undefined tensors. Do not use its results before
  /// wait() of this or a later operation has returned.
  ///
  /// Rethrows the error of the operation: MismatchError, ShutdownError, or CommunicationError, also
  /// if the device of a rank failed. A job of one rank throws DeviceError if its device failed.
  /// Throws InvalidArgument if an output has the wrong number of rows.
  void wait_on(void* stream) const;
  /// Blocks until the device has completed the operation. Throws as wait_on() does.
  void wait() const;
  /// Whether the operation has completed, with or without an error. Does not block.
  bool is_done() const;

 protected:
  /// Blocks until the operation is enqueued on the device. Throws as wait_on() does.
  void await_given() const;

 private:
  std::shared_ptr<coordinator::DeviceOperation> operation_;
  std::shared_ptr<coordinator::Completion> completion_;
};

/// The future result of an alltoall on a device.
class [[nodiscard]] DeviceAlltoallHandle : public DeviceHandle {
 public:
  DeviceAlltoallHandle() = default;
  DeviceAlltoallHandle(DeviceHandle handle,
                       std::shared_ptr<const std::vector<std::size_t>> received_splits);

  /// The number of rows received from each rank, by rank. Blocks and throws as wait_on() does.
  std::vector<std::size_t> received_splits() const;

 private:
  std::shared_ptr<const std::vector<std::size_t>> received_splits_ =
      std::make_shared<const std::vector<std::size_t>>();
};

}  // namespace horo
