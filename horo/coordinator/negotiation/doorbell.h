#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "horo/base/system/futex.h"

namespace horo::coordinator {

/// Wakes the thread that runs a rank's rounds. Lies in the shared memory of the node, so that other
/// ranks of the node can ring it. Zeroed memory is a valid doorbell. Any thread may ring; one
/// thread at a time may wait.
class alignas(64) Doorbell {
 public:
  /// Which rings wake the sleeping thread.
  enum class Sleep : std::uint32_t {
    kNone,   ///< the thread is awake
    kLight,  ///< all
    kDeep,   ///< only ring(): without a submission of this rank, no operation can complete
  };

  /// For submissions of this rank and urgent messages. Wakes from every sleep.
  void ring();
  /// For messages of other ranks. Does not wake from a deep sleep.
  void ring_gently();
  /// Number of rings so far. Must be read before looking for work; see wait().
  std::uint32_t rings() const { return rings_.load(); }
  /// Declares which rings wake the waiting thread. Called by the thread that owns the rounds.
  void announce(Sleep sleep) { sleep_ = sleep; }
  /// Sleeps until a ring, at most `timeout`. Returns at once if rings() differs from `seen`. May
  /// return early. Must be called after announce().
  void wait(std::uint32_t seen, std::chrono::nanoseconds timeout);
  /// Wakes the waiting thread from every sleep, without a ring.
  void wake();

 private:
  std::atomic<std::uint32_t> rings_{0};
  std::atomic<Sleep> sleep_{Sleep::kNone};
};

// The ringer writes rings_ and reads sleep_; the sleeper writes sleep_ and reads rings_. All four
// are sequentially consistent. So either the sleeper sees the new count and does not sleep, or the
// ringer sees the announced sleep and wakes it.
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
