#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "horo/base/system/futex.h"

namespace horo::coordinator {

/// Wakes the thread that runs a rank's rounds. On a node of several ranks, the doorbell is in
/// shared memory, so that the other ranks of the node can ring it. Zeroed memory is a valid
/// doorbell. Any thread may ring. Only one thread at a time may wait.
class alignas(64) Doorbell {
 public:
  /// Which rings wake the sleeping thread.
  enum class Sleep : std::uint32_t {
    kNone,   ///< the thread is awake
    kLight,  ///< ring() and ring_gently() wake the thread
    /// Only ring() wakes the thread. No operation can complete before this rank submits one.
    kDeep,
  };

  /// Signals an event that the thread must handle at once, such as a submission of this rank or an
  /// urgent message. Wakes the thread from every sleep.
  void ring();
  /// Signals a message of another rank, or space that another rank has freed in a ByteRing. Does
  /// not wake the thread from a deep sleep.
  void ring_gently();
  /// Returns the number of rings so far. The caller must read the number before it looks for work;
  /// see wait().
  std::uint32_t rings() const { return rings_.load(); }
  /// Sets which rings wake the waiting thread. Called by the thread that owns the rounds.
  void announce(Sleep sleep) { sleep_ = sleep; }
  /// Sleeps until a ring of the announced kind or wake(), but at most `timeout`. Returns at once if
  /// rings() differs from `seen`. May return early. The caller must call announce() before wait().
  void wait(std::uint32_t seen, std::chrono::nanoseconds timeout);
  /// Wakes the waiting thread from every sleep, without a ring.
  void wake();

 private:
  std::atomic<std::uint32_t> rings_{0};
  std::atomic<Sleep> sleep_{Sleep::kNone};
};

// The ringing thread writes rings_ and reads sleep_. The waiting thread writes sleep_ and reads
// rings_. All four accesses are sequentially consistent. So either the waiting thread sees the new
// count and does not sleep, or the ringing thread sees the announced sleep and wakes the waiting
// thread.
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
