#pragma once

#include <exception>
#include <functional>
#include <memory>

namespace horo {

namespace coordinator {
class Completion;
}

/// The future result of an asynchronous operation. Copies share it. All ranks that submitted the
/// operation get the same outcome. A default-constructed handle is done, without an error.
/// Thread-safe; wait() may be called any number of times.
class [[nodiscard]] Handle {
 public:
  Handle() = default;
  explicit Handle(std::shared_ptr<coordinator::Completion> completion);

  /// Whether the operation has completed, with or without an error. Does not block.
  bool is_done() const;
  /// Blocks until the operation has completed. Rethrows its error, if any.
  void wait() const;
  /// Calls `callback` once after the operation has completed, with its error or null. If the
  /// operation has completed already, the call happens before then() returns. Otherwise it happens
  /// on horo's thread, in the order of completion.
  ///
  /// The callback may submit operations. After shutdown() they fail at once with ShutdownError. It
  /// must not wait for operations: blocking calls throw InvalidArgument there, and so does wait(),
  /// unless the operation has completed. Keep it short, because it delays other operations. Its
  /// exceptions are logged and dropped.
  void then(std::function<void(std::exception_ptr)> callback) const;

 private:
  std::shared_ptr<coordinator::Completion> completion_;
};

}  // namespace horo
