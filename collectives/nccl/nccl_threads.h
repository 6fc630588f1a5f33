#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <list>
#include <mutex>
#include <thread>

namespace horo::collectives {

/// The threads of this process that end NCCL communicators. A call that ends a communicator may
/// block until other ranks end theirs, or until the program has destroyed the graphs that contain
/// collectives of the communicator. Therefore the caller of start() does not wait for the call.
/// Thread-safe.
class NcclThreads {
 public:
  /// The object of this process. At exit(), its destructor runs before the destructors of NCCL's
  /// objects, because the first call is made after NCCL has been loaded.
  static NcclThreads& of_process();

  NcclThreads() = default;
  /// Waits at most kExitLimit for the threads and joins those that have ended. Detaches the others
  /// and logs their number: they cannot be stopped.
  ~NcclThreads();
  NcclThreads(const NcclThreads&) = delete;
  NcclThreads& operator=(const NcclThreads&) = delete;

  static constexpr std::chrono::seconds kExitLimit{2};

  /// Runs `work`, which must not throw, in a new thread. The result becomes ready when `work` has
  /// returned and has been destroyed. Throws std::system_error if no thread can be started.
  std::shared_future<void> start(std::function<void()> work);
  /// Waits at most `limit` for all threads, and joins those that have ended. Returns the number of
  /// the others.
  std::size_t join(std::chrono::nanoseconds limit) noexcept;

 private:
  struct Thread {
    std::thread thread;
    std::shared_future<void> ended;
  };

  std::mutex mutex_;
  std::list<Thread> threads_;  // guarded by mutex_
};

}  // namespace horo::collectives
