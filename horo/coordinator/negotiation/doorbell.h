#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "horo/base/system/futex.h"

namespace horo::coordinator {

/// Wakes the threads of a rank that wait for work for a round of the coordinator. On a node of
/// several ranks, the doorbell is in shared memory, so that the other ranks of the node can ring
/// it. Zeroed memory is a valid doorbell. Thread-safe.
class alignas(64) Doorbell {
 public:
  /// Determines which functions wake the threads that wait.
  enum class Sleep : std::uint32_t {
    kNone,   ///< neither ring() nor ring_gently(), because the owner of the rounds is awake
    kLight,  ///< ring() and ring_gently()
    /// Only ring(). Used while no operation is pending on this rank. Messages of other ranks can
    /// then wait, because their operations cannot succeed without a submission of this rank.
    kDeep,
  };

  /// Signals an event that this rank must handle at once, such as a submission of this rank or an
  /// urgent message.
  void ring();
  /// Signals a message of another rank, or space that another rank has freed in a ByteRing. Does
  /// not end a deep sleep.
  void ring_gently();
  /// Returns the number of calls of ring() and ring_gently(), modulo 2^32. A thread must read the
  /// number before it looks for work, and pass it to wait() if it finds none.
  std::uint32_t rings() const { return rings_.load(); }
  /// Sets which functions wake the threads that wait. Called by the owner of the coordinator's
  /// rounds.
  void announce(Sleep sleep) { sleep_ = sleep; }
  /// Sleeps until wake() or a ring that ends the announced sleep, but at most for `timeout`. May
  /// return earlier. Returns at once if rings() differs from `seen`. The caller must have called
  /// announce().
  void wait(std::uint32_t seen, std::chrono::nanoseconds timeout);
  /// Wakes all threads that wait, whichever sleep is announced. Does not change rings().
  void wake();

 private:
  std::atomic<std::uint32_t> rings_{0};
  std::atomic<Sleep> sleep_{Sleep::kNone};
};

// The ringing thread increments rings_ and then reads sleep_. The waiting thread writes sleep_ and
// then reads rings_. All four accesses are sequentially consistent. So either the waiting thread
// reads the new value of rings_ and does not sleep, or the ringing thread reads the announced sleep
// and calls wake() if the ring ends this sleep.
inline void Doorbell::ring() {
  ++rings_;
  if (sleep_.load() != Sleep::kNone) wake();
}

inline void Doorbell::ring_gently() {
  ++rings_;
  if (sleep_.load() == Sleep::kLight) wake();
}

inline void Doorbell::wait(std::uint32_t seen, std::chrono::nanoseconds timeout) {
  if (rings_ == seen) futex_wait(rings_, seen, timeout);
}

inline void Doorbell::wake() { futex_wake_all(rings_); }

}  // namespace horo::coordinator
