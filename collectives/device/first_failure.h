#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

namespace horo::collectives {

/// The error of the first failure of several threads. Thread-safe.
class FirstFailure {
 public:
  /// Keeps `text`, unless there is an error already.
  void set(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    if (text_) return;
    text_ = text;
    is_set_.store(true, std::memory_order_release);
  }
  /// Does not lock.
  bool is_set() const noexcept { return is_set_.load(std::memory_order_acquire); }
  std::optional<std::string> text() const {
    const std::scoped_lock lock(mutex_);
    return text_;
  }

 private:
  std::atomic<bool> is_set_{false};
  mutable std::mutex mutex_;
  std::optional<std::string> text_;  // guarded by mutex_
};

}  // namespace horo::collectives
