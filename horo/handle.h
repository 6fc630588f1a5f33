#pragma once

#include <exception>
#include <functional>
#include <memory>

namespace horo {

namespace coordinator {
class Completion;
}

/// The result to come of an asynchronous operation. Copies share it. Every rank that submitted the
/// operation sees the same outcome. May be waited on from any thread, any number of times.
class [[nodiscard]] Handle {
 public:
  Handle() = default;
  explicit Handle(std::shared_ptr<coordinator::Completion> completion);

  /// Whether the operation has ended (well or not). Does not block.
  bool is_done() const;
  /// Blocks until the operation has ended; throws the horo::Error it ended with, if any.
  void wait() const;
  /// Has `callback` called once when the operation has ended, with its error or null: on horo's own
  /// thread, in the order of completion, or here and now if it has ended already. The callback may
  /// submit further operations (after shutdown they end at once with ShutdownError) but not wait
  /// for one: blocking forms and wait() throw InvalidArgument in it. It should be short, since
  /// other operations wait meanwhile. What it throws is logged.
  void then(std::function<void(std::exception_ptr)> callback) const;

 private:
  std::shared_ptr<coordinator::Completion> completion_;
};

}  // namespace horo
