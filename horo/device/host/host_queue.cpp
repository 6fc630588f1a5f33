#include "horo/device/host/host_queue.h"

#include <exception>
#include <utility>

namespace horo::device {

HostQueue::HostQueue(std::chrono::microseconds max_delay, std::uint64_t seed)
    : max_delay_(max_delay), random_(seed), thread_([this] { run(); }) {}

HostQueue::~HostQueue() {
  {
    const std::scoped_lock lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void HostQueue::push(Work work, Failed failed) {
  {
    const std::scoped_lock lock(mutex_);
    items_.push_back({std::move(work), std::move(failed)});
  }
  changed_.notify_all();
}

bool HostQueue::is_idle() const {
  const std::scoped_lock lock(mutex_);
  return items_.empty() && !is_working_;
}

void HostQueue::await_idle() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return items_.empty() && !is_working_; });
}

std::string HostQueue::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

std::shared_ptr<HostCapture> HostQueue::capture() const {
  const std::scoped_lock lock(mutex_);
  return capture_;
}

bool HostQueue::enter(std::shared_ptr<HostCapture> capture) {
  const std::scoped_lock lock(mutex_);
  if (capture_ != nullptr) return false;
  capture_ = std::move(capture);
  return true;
}

void HostQueue::leave_capture() {
  const std::scoped_lock lock(mutex_);
  capture_ = nullptr;
}

// Executes all remaining items before it ends, so the destructor of a stream waits for its work.
void HostQueue::run() {
  for (;;) {
    Item item;
    {
      std::unique_lock lock(mutex_);
      is_working_ = false;
      if (items_.empty()) changed_.notify_all();
      changed_.wait(lock, [&] { return !items_.empty() || is_ending_; });
      if (items_.empty()) return;
      item = std::move(items_.front());
      items_.pop_front();
      is_working_ = true;
    }
    run_item(item);
  }
}

// After a failure the queue executes no more work, like a GPU after an error. The queue still calls
// the `failed` functions of its items, so that waiters return.
void HostQueue::run_item(const Item& item) {
  delay();
  std::string text = failure();
  if (text.empty()) {
    try {
      item.work();
      return;
    } catch (const std::exception& error) {
      text = error.what();
    }
    const std::scoped_lock lock(mutex_);
    failure_ = text;
  }
  if (item.failed) item.failed(text);
}

// The random generator belongs to this thread. A fixed seed gives the same delays in every run,
// although not the same interleaving.
void HostQueue::delay() {
  if (max_delay_.count() == 0) return;
  const auto most = static_cast<std::uint64_t>(max_delay_.count());
  std::this_thread::sleep_for(std::chrono::microseconds(random_() % (most + 1)));
}

}  // namespace horo::device
