#include "horo/coordinator/tensor_queue.h"

#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"
#include "horo/base/futex.h"
#include "horo/observe/wall_clock.h"

namespace horo::coordinator {

void TensorQueue::submit(Entry entry) {
  {
    const std::scoped_lock lock(mutex_);
    if (closing_error_ == nullptr) {
      const Pending pending{entry.request.kind, entry.input.bytes(), entry.submitted,
                            entry.completion};
      if (!pending_.emplace(entry.request.name, pending).second)
        throw InvalidArgument(
            fmt::format("'{}' is already pending on this rank: wait for it, or use another name",
                        entry.request.name));
      entries_.push_back(std::move(entry));
      count_.store(entries_.size(), std::memory_order_release);
      announce();
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
  auto released = pending_.extract(name);
  if (released.empty()) return;
  ++released_;
  last_released_ = std::move(released.key());
}

void TensorQueue::close(std::exception_ptr error) {
  const std::scoped_lock lock(mutex_);
  if (closing_error_ == nullptr) closing_error_ = std::move(error);
  pending_.clear();
}

void TensorQueue::add_to(observe::RankSnapshot& snapshot) {
  using Time = std::chrono::steady_clock::time_point;
  const std::scoped_lock lock(mutex_);
  for (const auto& [name, pending] : pending_) {
    const Time started = pending.completion->started();
    observe::OpenOperation operation;
    operation.name = name;
    operation.kind = name_of(pending.kind);
    operation.bytes = pending.bytes;
    operation.submitted = observe::wall_time_of(pending.submitted);
    if (started != Time{}) operation.started = observe::wall_time_of(started);
    snapshot.open.push_back(std::move(operation));
  }
  snapshot.finished += released_;
  if (released_ != told_released_) snapshot.last_finished = last_released_;
  told_released_ = released_;
}

void TensorQueue::wait(std::chrono::nanoseconds timeout) {
  is_asleep_ = true;
  // Whoever announces an event after this comparison sees that a wake-up is needed, or ends the
  // futex before it begins.
  if (events_ == seen_) futex_wait(events_, seen_, timeout);
  is_asleep_ = false;
  seen_ = events_;
}

void TensorQueue::wake() { announce(); }

void TensorQueue::announce() {
  ++events_;
  if (is_asleep_) futex_wake_all(events_);
}

}  // namespace horo::coordinator
