#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace horo {

namespace coordinator {
class Completion;
class DeviceOperation;
}  // namespace coordinator

/// The future result of an operation of DeviceOperations. Copies of a handle share the result. The
/// operation has two stages. First the ranks negotiate the operation, and horo enqueues it on the
/// device. Then the device runs it. A default-constructed handle is done, without an error.
/// Thread-safe. All functions may be called any number of times. A handle may outlive the
/// DeviceOperations.
class [[nodiscard]] DeviceHandle {
 public:
  DeviceHandle() = default;
  DeviceHandle(std::shared_ptr<coordinator::DeviceOperation> operation,
               std::shared_ptr<coordinator::Completion> completion);

  /// Makes later work of `stream` start after the operation. `stream` is as in
  /// DeviceAllreduceOptions. Blocks until the operation is enqueued on the device, not until the
  /// device has run it. After wait_on() has returned, the name of the operation may be used again.
  /// If the operation fails on the device, later work of the stream reads undefined tensors. Do not
  /// use results of that work before wait() of this or a later operation has returned.
  ///
  /// Rethrows the error of the operation: MismatchError, ShutdownError or CommunicationError. If
  /// the device of a rank fails, all ranks get CommunicationError. If only one rank takes part, it
  /// gets DeviceError instead. Throws InvalidArgument if the output has the wrong number of rows,
  /// in a completion callback, or if a graph is being captured on `stream`.
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

  /// Returns the number of rows received from each rank, by rank. Blocks until the operation is
  /// enqueued on the device. Throws as wait_on() does.
  std::vector<std::size_t> received_splits() const;

 private:
  std::shared_ptr<const std::vector<std::size_t>> received_splits_ =
      std::make_shared<const std::vector<std::size_t>>();
};

}  // namespace horo
