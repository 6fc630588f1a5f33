#include "collectives/nccl/nccl_threads.h"

#include <iterator>
#include <string>
#include <utility>

#include "horo/base/text/log.h"

namespace horo::collectives {

NcclThreads& NcclThreads::of_process() {
  static NcclThreads threads;
  return threads;
}

NcclThreads::~NcclThreads() {
  const std::size_t left = join(kExitLimit);
  if (left == 0) return;
  log_warning("{} still inside NCCL at exit: a peer or a captured step has not ended",
              left == 1 ? "1 thread is" : std::to_string(left) + " threads are");
  for (Thread& thread : threads_) thread.thread.detach();
}

// Also joins the threads that have ended, so their number stays small.
std::shared_future<void> NcclThreads::start(std::function<void()> work) {
  join(std::chrono::nanoseconds(0));
  std::promise<void> promise;
  std::shared_future<void> ended = promise.get_future().share();
  const std::scoped_lock lock(mutex_);
  Thread& added = threads_.emplace_back();
  added.ended = ended;
  try {
    added.thread = std::thread([work = std::move(work), promise = std::move(promise)]() mutable {
      work();
      work = nullptr;  // frees what `work` owns before the result becomes ready
      promise.set_value();
    });
  } catch (...) {
    threads_.pop_back();
    throw;
  }
  return ended;
}

// The threads are joined without mutex_: a thread that frees memory may call code that locks it.
std::size_t NcclThreads::join(std::chrono::nanoseconds limit) noexcept {
  const auto until = std::chrono::steady_clock::now() + limit;
  std::list<Thread> waiting, left;
  {
    const std::scoped_lock lock(mutex_);
    waiting.swap(threads_);
  }
  for (auto thread = waiting.begin(); thread != waiting.end();) {
    const auto next = std::next(thread);
    if (thread->ended.wait_until(until) == std::future_status::ready)
      thread->thread.join();
    else
      left.splice(left.end(), waiting, thread);
    thread = next;
  }
  const std::size_t count = left.size();
  const std::scoped_lock lock(mutex_);
  threads_.splice(threads_.end(), left);
  return count;
}

}  // namespace horo::collectives
