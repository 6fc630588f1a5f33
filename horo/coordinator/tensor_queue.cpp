#include "horo/coordinator/tensor_queue.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "horo/base/error.h"

namespace horo::coordinator {

void TensorQueue::submit(Entry entry) {
  submit_quietly(std::move(entry));
  doorbell_.ring();
}

// Inserts the names before it copies the initial values, so a rejected submission does not change
// the tensor. Copies without the lock, because the copy may take a long time. Another thread may
// close the queue during the copy, so the function checks closing_error_ again. Runs callbacks
// without the lock, because they may submit operations. The loop may read closing_error_ without
// the lock, because closing_error_ does not change once it is set.
void TensorQueue::submit_quietly(Entry entry) {
  {
    std::unique_lock lock(mutex_);
    if (closing_error_ == nullptr) {
      insert_names(entry.request);
      if (entry.initial.data() != nullptr && entry.on_device == nullptr) {
        lock.unlock();
        std::memcpy(entry.input.data(), entry.initial.data(), entry.initial.bytes());
        lock.lock();
      }
    }
    if (closing_error_ == nullptr) {
      entries_.push_back(std::move(entry));
      count_.store(entries_.size(), std::memory_order_release);
      return;
    }
  }
  for (Completion::Callback& callback : entry.completion->complete(closing_error_))
    run_callback(std::move(callback), closing_error_);
}

// The caller must hold mutex_. Inserts all names of the request or, if it throws, none.
void TensorQueue::insert_names(const Request& request) {
  HORO_CHECK(!pending_.contains(std::string(kJoinName)) || request.kind == Kind::kShutdown,
             fmt::format("'{}' was submitted on a rank that has joined: wait until join() returns",
                         request.name));
  std::vector<const std::string*> names = {&request.name};
  for (const Request::Member& member : request.members) names.push_back(&member.name);
  for (std::size_t i = 0; i < names.size(); ++i) {
    // A group may have the name of its first tensor.
    if (i == 1 && *names[1] == *names[0]) continue;
    if (pending_.insert(*names[i]).second) continue;
    for (std::size_t inserted = 0; inserted < i; ++inserted) pending_.erase(*names[inserted]);
    throw InvalidArgument(fmt::format(
        "'{}' is already pending on this rank: wait for it, or use another name", *names[i]));
  }
}

// Checks is_empty() first, so a round without new entries does not take the lock.
std::vector<Entry> TensorQueue::take_all() {
  if (is_empty()) return {};
  const std::scoped_lock lock(mutex_);
  count_.store(0, std::memory_order_release);
  return std::exchange(entries_, {});
}

void TensorQueue::release(const Request& request) {
  const std::scoped_lock lock(mutex_);
  pending_.erase(request.name);
  for (const Request::Member& member : request.members) pending_.erase(member.name);
}

void TensorQueue::close(std::exception_ptr error) {
  const std::scoped_lock lock(mutex_);
  if (closing_error_ == nullptr) closing_error_ = std::move(error);
}

}  // namespace horo::coordinator
