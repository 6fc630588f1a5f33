#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace horo::ops {

/// Calls a function on a thread of its own and queues the items that it returns. See
/// Pipeline::prefetch(). next() must be called from one thread. The destructor stops the thread
/// after the item that it is producing.
template <typename T>
class PrefetchedItems {
 public:
  /// Queues up to `most` items. `produce` returns nothing after the last item.
  PrefetchedItems(std::function<std::optional<T>()> produce, std::size_t most)
      : produce_(std::move(produce)),
        most_(most),
        thread_([this](std::stop_token stop) { run(std::move(stop)); }) {}

  /// Returns the next item, or nothing after the last one. Blocks until it is produced. Rethrows an
  /// exception of `produce`; there are no items after it.
  std::optional<T> next() {
    std::unique_lock lock(mutex_);
    produced_.wait(lock, [&] { return !items_.empty() || has_ended_; });
    if (items_.empty()) {
      if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
      return std::nullopt;
    }
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    taken_.notify_one();
    return item;
  }

 private:
  void run(std::stop_token stop) {
    std::exception_ptr error;
    try {
      while (auto item = produce_())
        if (!push(*std::move(item), stop)) return;
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    error_ = error;
    has_ended_ = true;
    produced_.notify_one();
  }
  bool push(T item, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (!taken_.wait(lock, stop, [&] { return items_.size() < most_; })) return false;
    items_.push_back(std::move(item));
    produced_.notify_one();
    return true;
  }

  const std::function<std::optional<T>()> produce_;
  const std::size_t most_;
  std::mutex mutex_;  // guards the members below, up to thread_
  std::condition_variable_any produced_, taken_;
  std::deque<T> items_;
  bool has_ended_ = false;
  std::exception_ptr error_;
  std::jthread thread_;
};

}  // namespace horo::ops
