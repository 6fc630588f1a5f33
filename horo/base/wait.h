#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace horo {

/// Runs other work of a thread while that thread waits. As long as an object of this class exists,
/// each Waiter of the thread that made the object calls `work` whenever it reads the clock. A
/// thread must have at most one such object, and must destroy the object itself.
class WhileWaiting {
 public:
  /// `work` must not block and must not wait. It must return whether it had anything to do. An
  /// exception from `work` ends the wait.
  explicit WhileWaiting(std::function<bool()> work);
  ~WhileWaiting();
  WhileWaiting(const WhileWaiting&) = delete;
  WhileWaiting& operator=(const WhileWaiting&) = delete;

  /// Runs the work of this thread once, if the thread has work. For code whose waits are usually
  /// too short for a Waiter to run the work. Returns whether there was anything to do.
  static bool work_once();

 private:
  std::function<bool()> work_;
};

/// A flag with a text by which a failing rank, or the watchdog, ends the waits of the ranks that
/// share the object. Processes may share its memory, in which all zeros mean "not raised". Also
/// holds times that waits and watchdogs share. Thread-safe.
class AbortSignal {
 public:
  /// Raises the signal. The first call sets the text, cut to the available size; later calls have
  /// no effect. On return the signal is raised, unless the first call does not complete soon, for
  /// example because its process was stopped or killed during the call.
  void raise(std::string_view text) noexcept;
  bool is_raised() const noexcept { return state_.load(std::memory_order_acquire) == kRaised; }
  /// Returns the text of the first call of raise(). Requires is_raised().
  std::string text() const;
  /// The same without a copy; valid as long as this object.
  std::string_view view() const noexcept { return text_; }

  /// Excludes the time up to `now` from every wait that uses this signal. Used during a declared
  /// pause.
  void excuse_waits(std::chrono::steady_clock::time_point now) const noexcept {
    excused_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }
  /// The end of the excluded time; the epoch of the clock if there is none.
  std::chrono::steady_clock::time_point excused() const noexcept {
    return std::chrono::steady_clock::time_point(
        std::chrono::steady_clock::duration(excused_.load(std::memory_order_relaxed)));
  }

  /// Declares that a watchdog has snapshots of all ranks until `until`. Meanwhile, the watchdogs of
  /// the ranks that share this object do not log waits from LongWaits.
  void watch_until(std::chrono::steady_clock::time_point until) const noexcept {
    watched_.store(until.time_since_epoch().count(), std::memory_order_relaxed);
  }
  bool is_watched(std::chrono::steady_clock::time_point now) const noexcept {
    return now.time_since_epoch().count() < watched_.load(std::memory_order_relaxed);
  }

  /// Declares that a wait has lasted for its timeout at `now`. A slow link is assumed not to cause
  /// such a wait.
  void note_overdue_wait(std::chrono::steady_clock::time_point now) const noexcept {
    overdue_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }
  /// Whether note_overdue_wait() was called in the last three seconds before `now`.
  bool has_overdue_wait(std::chrono::steady_clock::time_point now) const noexcept {
    const auto noted = overdue_.load(std::memory_order_relaxed);
    return noted != 0 && (now.time_since_epoch() - std::chrono::steady_clock::duration(noted)) <
                             std::chrono::seconds(3);
  }

 private:
  static constexpr std::uint32_t kWriting = 1;
  static constexpr std::uint32_t kRaised = 2;
  std::atomic<std::uint32_t> state_{0};
  mutable std::atomic<std::chrono::steady_clock::rep> excused_{0}, watched_{0}, overdue_{0};
  char text_[1004] = {};
};

/// How a rank waits for its peers. The rank polls for `spin`. Then it polls and yields the core for
/// `yield`. Then it sleeps for intervals that grow to `longest_nap`. A wait ends with
/// CommunicationError after `timeout` plus `grace`, or when `abort` is raised. Time that `abort`
/// excludes does not count. In a Waiter, time in which the process was stopped does not count
/// either.
struct WaitPolicy {
  std::chrono::nanoseconds spin{0};
  std::chrono::nanoseconds yield{std::chrono::microseconds(200)};
  std::chrono::nanoseconds longest_nap{std::chrono::milliseconds(1)};
  /// The number of polls between two readings of the clock before the wait sleeps, at least 1. The
  /// durations above count from the first reading.
  std::uint32_t quick_polls = 32;
  std::chrono::nanoseconds timeout{std::chrono::minutes(5)};
  /// Extra time after `timeout` in which the watchdog can raise `abort` first. The watchdog usually
  /// has snapshots of all ranks.
  std::chrono::nanoseconds grace{0};
  const AbortSignal* abort = nullptr;  ///< may be null; must outlive the waits
  /// If not null and true, a wait ends with ShutdownError, because its result is no longer needed.
  const std::atomic<bool>* cancelled = nullptr;
  /// If not null, the waiting thread calls this function before each sleep. An exception from the
  /// function ends the wait.
  const std::function<void()>* before_nap = nullptr;

  /// The time from `since` to `now`, without the time that `abort` excludes.
  std::chrono::nanoseconds time_since(std::chrono::steady_clock::time_point since,
                                      std::chrono::steady_clock::time_point now) const {
    return now - (abort == nullptr ? since : std::max(since, abort->excused()));
  }
  /// The time after which a wait ends with an error: `timeout` plus `grace`.
  std::chrono::nanoseconds limit() const { return timeout + grace; }
  /// Whether a wait that began at `since` has timed out at `now`. If the wait has lasted for more
  /// than `timeout`, also notes in `abort` that a wait is overdue.
  bool has_timed_out(std::chrono::steady_clock::time_point since,
                     std::chrono::steady_clock::time_point now) const {
    const std::chrono::nanoseconds waited = time_since(since, now);
    if (abort != nullptr && waited > timeout) abort->note_overdue_wait(now);
    return waited > limit();
  }
};

/// The separator between an error text and the timeout: "TEXT (HORO_TIMEOUT is 5 min)".
inline constexpr std::string_view kTimeoutMark = " (HORO_TIMEOUT is ";
/// Appends the value of HORO_TIMEOUT to the text of an error.
std::string with_timeout(std::string_view text, std::chrono::nanoseconds timeout);
/// Whether `text` contains kTimeoutMark, as a result of with_timeout() does.
bool names_timeout(std::string_view text);

/// One wait of one thread, during which the thread runs its other work (WhileWaiting). Use: `for
/// (Waiter waiter(policy); !ready(); waiter.pause("for the reply of rank 3"));`
class Waiter {
 public:
  /// `policy` must outlive this object.
  explicit Waiter(const WaitPolicy& policy) : policy_(policy) {}

  /// Pauses between two polls. Throws as WaitPolicy describes. `what` completes "waited 5 min ..."
  /// in the error.
  void pause(std::string_view what) { pause_at(nullptr, 0, what); }
  /// The same for an event that changes `word` from `seen` and then calls futex_wake_all(word),
  /// which ends a sleep.
  void pause_on(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::string_view what) {
    pause_at(&word, seen, what);
  }
  /// Whether the wait has reached the stage in which it sleeps.
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
