#pragma once

#include <exception>
#include <functional>
#include <memory>

namespace horo {

namespace coordinator {
class Completion;
}

/// The future result of an asynchronous operation. Copies of a handle share the result. Context
/// describes which ranks get which errors. A default-constructed handle is done, without an error.
/// Thread-safe. wait() may be called any number of times.
class [[nodiscard]] Handle {
 public:
  Handle() = default;
  explicit Handle(std::shared_ptr<coordinator::Completion> completion);

  /// Whether the operation has completed, with or without an error. Does not block.
  bool is_done() const;
  /// Blocks until the operation has completed. Rethrows its error, if any.
  void wait() const;
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

 private:
  std::shared_ptr<coordinator::Completion> completion_;
};

}  // namespace horo
