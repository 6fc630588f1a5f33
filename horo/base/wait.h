#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace horo {

/// Where a failing rank, or who watches the ranks, leaves word for the others. Plain memory that
/// ranks may share between processes; zero-initialised means "not raised". Thread-safe.
class AbortSignal {
 public:
  /// The first call wins; `text` is cut to what fits. It is raised when this returns, whoever was
  /// first.
  void raise(std::string_view text) noexcept;
  bool is_raised() const noexcept { return state_.load(std::memory_order_acquire) == kRaised; }
  /// The text given to raise(). Requires is_raised().
  std::string text() const;
  /// The same without a copy; valid as long as this.
  std::string_view view() const noexcept { return text_; }

  /// Time up to `now` is not counted as waiting, in any wait that knows this signal: somebody has
  /// asked for patience.
  void excuse_waits(std::chrono::steady_clock::time_point now) const noexcept {
    excused_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }
  /// Up to when waits are excused; the clock's epoch if never.
  std::chrono::steady_clock::time_point excused() const noexcept {
    return std::chrono::steady_clock::time_point(
        std::chrono::steady_clock::duration(excused_.load(std::memory_order_relaxed)));
  }

  /// Until `until` somebody who sees all ranks of the job speaks of those that are missing, so that
  /// nobody else need.
  void watch_until(std::chrono::steady_clock::time_point until) const noexcept {
    watched_.store(until.time_since_epoch().count(), std::memory_order_relaxed);
  }
  bool is_watched(std::chrono::steady_clock::time_point now) const noexcept {
    return now.time_since_epoch().count() < watched_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t kWriting = 1;
  static constexpr std::uint32_t kRaised = 2;
  std::atomic<std::uint32_t> state_{0};
  mutable std::atomic<std::chrono::steady_clock::rep> excused_{0}, watched_{0};
  char text_[1004] = {};
};

/// How a rank waits for its peers: it keeps the core for `spin`, then yields it again and again for
/// `yield`, then sleeps in naps that grow to `longest_nap`. A wait ends with CommunicationError
/// after `timeout`, or when `abort` is raised. Time in which the process did not run, or that
/// `abort` excuses, does not count.
struct WaitPolicy {
  std::chrono::nanoseconds spin{0};
  std::chrono::nanoseconds yield{std::chrono::microseconds(200)};
  std::chrono::nanoseconds longest_nap{std::chrono::milliseconds(1)};
  /// How often what is awaited is looked at in a row before the clock is read, which the above
  /// begins with; at least 1.
  std::uint32_t quick_polls = 32;
  std::chrono::nanoseconds timeout{std::chrono::minutes(5)};
  /// How long after `timeout` somebody else, who can say more, is left to raise `abort` first.
  std::chrono::nanoseconds grace{0};
  const AbortSignal* abort = nullptr;  ///< may be null; outlives the waits
  /// If set and true, a wait ends with ShutdownError: its result is not wanted any more.
  const std::atomic<bool>* cancelled = nullptr;
  /// If set, called before each nap, by the thread that waits; what it throws ends the wait.
  const std::function<void()>* before_nap = nullptr;

  /// From `since` to `now`, without the time that `abort` excuses.
  std::chrono::nanoseconds time_since(std::chrono::steady_clock::time_point since,
                                      std::chrono::steady_clock::time_point now) const {
    return now - (abort == nullptr ? since : std::max(since, abort->excused()));
  }
};

/// One wait, in which the thread's other work goes on (WhileWaiting). Use: `for (Waiter
/// waiter(policy); !ready(); waiter.pause("for the answer of rank 3"));` Used by one thread.
class Waiter {
 public:
  explicit Waiter(const WaitPolicy& policy) : policy_(policy) {}

  /// Lets some time pass. `what` completes "waited 5min ..." in the error.
  void pause(std::string_view what) { pause_at(nullptr, 0, what); }
  /// The same, where the awaited event is a change of `word` away from `seen` that is announced
  /// with futex_wake_all: naps end with it.
  void pause_on(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::string_view what) {
    pause_at(&word, seen, what);
  }
  /// Whether the wait has reached the stage in which it naps.
  bool is_napping() const { return is_napping_; }

 private:
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  void pause_at(const std::atomic<std::uint32_t>* word, std::uint32_t seen, std::string_view what) {
    if (++polls_ % policy_.quick_polls != 0 && !is_napping_)
      relax();
    else
      pause_slowly(word, seen, what);
  }
  void pause_slowly(const std::atomic<std::uint32_t>* word, std::uint32_t seen,
                    std::string_view what);

  const WaitPolicy& policy_;
  std::chrono::steady_clock::time_point start_{};
  std::chrono::steady_clock::time_point last_look_{};
  std::uint32_t polls_ = 0;
  std::uint32_t naps_ = 0;
  bool is_napping_ = false;
};

}  // namespace horo
