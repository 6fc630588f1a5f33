#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace horo {

/// Says from a thread of its own, as long as it lives, that this rank waits in horo::init() for
/// ranks that have not called it: MPI_Init waits for them without a limit, and nobody watches the
/// ranks yet. Calls no MPI.
class InitNotice {
 public:
  /// The line comes after `first`, and again after each `again`. `rank` names this rank, such as
  /// "rank 3 (host b, pid 7)". `say`: shows a line, from the thread; null: log_warning.
  InitNotice(std::string rank, std::chrono::nanoseconds first, std::chrono::nanoseconds again,
             std::function<void(const std::string&)> say = nullptr);
  /// All ranks have come, or the wait has ended with an error.
  ~InitNotice();
  InitNotice(const InitNotice&) = delete;
  InitNotice& operator=(const InitNotice&) = delete;

 private:
  void run() const;

  const std::string rank_;
  const std::chrono::nanoseconds first_, again_;
  const std::function<void(const std::string&)> say_;
  std::atomic<std::uint32_t> should_stop_{0};
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace horo
