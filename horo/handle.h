#pragma once

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

 private:
  std::shared_ptr<coordinator::Completion> completion_;
};

}  // namespace horo
