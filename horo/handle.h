#pragma once

#include <exception>
#include <functional>
#include <memory>

namespace horo {

namespace coordinator {
class Completion;
class DeviceOperation;
}  // namespace coordinator

/// The future result of an asynchronous operation. Copies of a handle share the result. Context
/// describes which ranks get which errors. A default-constructed handle is done, without an error.
/// Thread-safe. All functions may be called any number of times. A handle may outlive the Context.
///
/// An operation on tensors in device memory has two stages. First the ranks agree on the operation,
/// and horo enqueues it on the device. From then on, its name may be used again. Then the device
/// runs it. The operation has completed when the device has run it.
class [[nodiscard]] Handle {
 public:
  Handle() = default;
  /// For use inside horo. `on_device` is null if the tensors are in host memory.
  explicit Handle(std::shared_ptr<coordinator::Completion> completion,
                  std::shared_ptr<coordinator::DeviceOperation> on_device = nullptr);

  /// Whether the operation has completed, with or without an error. Does not block.
  bool is_done() const;
  /// Blocks until the operation has completed. Rethrows its error, if any.
  void wait() const;
  /// Makes later work of `stream` start after the operation. `stream` is as in AllreduceOptions.
  /// Blocks until the operation is enqueued on the device, not until the device has run it. If the
  /// operation fails on the device, later work of the stream reads undefined tensors. Do not use
  /// results of that work before wait() of this or a later operation has returned.
  ///
  /// Rethrows the error of the operation, if it is known. Throws InvalidArgument if the tensors are
  /// in host memory, in a completion callback, or if a graph is being captured on `stream`.
  void wait_on(void* stream) const;
  /// Calls `callback` once after the operation has completed, with the error of the operation, or
  /// with null. If the operation has already completed, this thread calls `callback` before then()
  /// returns. Otherwise a thread of the operation's Context or ProcessSet calls it. This thread
  /// calls callbacks in the order in which their operations complete. Throws InvalidArgument if
  /// `callback` is empty.
  ///
  /// The callback may submit operations. After shutdown(), such operations fail at once with
  /// ShutdownError. The callback must not wait for operations: blocking calls throw InvalidArgument
  /// in a callback. wait() throws it too, unless the operation has already completed. Keep the
  /// callback short, because it delays other operations. Its exceptions are logged and dropped.
  void then(std::function<void(std::exception_ptr)> callback) const;

 protected:
  /// Blocks until the ranks have agreed on the operation and, on a device, until it is enqueued.
  /// Throws as wait() does.
  void await_result_size() const;

 private:
  std::shared_ptr<coordinator::Completion> completion_;
  std::shared_ptr<coordinator::DeviceOperation> on_device_;  // null for host memory
};

}  // namespace horo
