#include "horo/coordinator/tensor_queue.h"

#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"

namespace horo::coordinator {

void TensorQueue::submit(Entry entry) {
  {
    const std::scoped_lock lock(mutex_);
    if (closing_error_ == nullptr) {
      if (!pending_.insert(entry.request.name).second)
        throw InvalidArgument(
            fmt::format("'{}' is already pending on this rank: wait for it, or use another name",
                        entry.request.name));
      entries_.push_back(std::move(entry));
      count_.store(entries_.size(), std::memory_order_release);
      changed_.notify_one();
      return;
    }
  }
  entry.completion->complete(closing_error_);
}

std::vector<Entry> TensorQueue::take() {
  if (is_empty()) return {};
  const std::scoped_lock lock(mutex_);
  count_.store(0, std::memory_order_release);
  return std::exchange(entries_, {});
}

void TensorQueue::release(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  pending_.erase(name);
}

void TensorQueue::close(std::exception_ptr error) {
  const std::scoped_lock lock(mutex_);
  if (closing_error_ == nullptr) closing_error_ = std::move(error);
}

void TensorQueue::wait(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  // wait_until on the system clock: the thread sanitizer of this compiler does not know the other
  // one.
  changed_.wait_until(lock, std::chrono::system_clock::now() + timeout,
                      [&] { return !entries_.empty() || is_woken_; });
  is_woken_ = false;
}

void TensorQueue::wake() {
  const std::scoped_lock lock(mutex_);
  is_woken_ = true;
  changed_.notify_one();
}

}  // namespace horo::coordinator
