#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace horo {

namespace coordinator {
class Completion;
class DeviceOperation;
}  // namespace coordinator

/// The result to come of an operation on a device: DeviceOperations'. Copies share it. It ends in
/// two stages: the ranks agree on it and it is given to the device, which then does it. May be used
/// from any thread, any number of times, and kept longer than the DeviceOperations.
class [[nodiscard]] DeviceHandle {
 public:
  DeviceHandle() = default;
  DeviceHandle(std::shared_ptr<coordinator::DeviceOperation> operation,
               std::shared_ptr<coordinator::Completion> completion);

  /// What `stream` is given from now on begins when the operation is done. Waits until it has been
  /// given to the device, not for the device. From then on its name may be used again. If it fails
  /// later, the stream goes on with tensors of any values: what it has made of them counts once
  /// wait() has returned, of this or of a later operation. Throws what the operation has ended
  /// with: MismatchError, CommunicationError (also if the device of any rank failed) and
  /// ShutdownError as a Handle does, InvalidArgument for an output without the rows that come,
  /// DeviceError if the device of a rank alone failed.
  void wait_on(void* stream) const;
  /// Waits until the device has done it. Throws likewise.
  void wait() const;
  /// Whether it has ended (well or not). Does not block.
  bool is_done() const;

 protected:
  /// Waits until it has been given to the device. Throws likewise.
  void await_given() const;

 private:
  std::shared_ptr<coordinator::DeviceOperation> operation_;
  std::shared_ptr<coordinator::Completion> completion_;
};

/// That of an alltoall.
class [[nodiscard]] DeviceAlltoallHandle : public DeviceHandle {
 public:
  DeviceAlltoallHandle() = default;
  DeviceAlltoallHandle(DeviceHandle handle,
                       std::shared_ptr<const std::vector<std::size_t>> received_splits);

  /// How many rows of the output come from each rank, by rank. Waits and throws as wait_on().
  std::vector<std::size_t> received_splits() const;

 private:
  std::shared_ptr<const std::vector<std::size_t>> received_splits_ =
      std::make_shared<const std::vector<std::size_t>>();
};

}  // namespace horo
