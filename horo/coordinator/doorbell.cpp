#include "horo/coordinator/doorbell.h"

#include "horo/base/futex.h"

namespace horo::coordinator {

// Ringing and falling asleep are ordered one way for all: either the sleeper sees the new count, or
// the ringer sees that it sleeps.
void Doorbell::ring() {
  ++rings_;
  if (sleep_.load() != Sleep::kNone) wake();
}

void Doorbell::ring_gently() {
  ++rings_;
  if (sleep_.load() == Sleep::kLight) wake();
}

void Doorbell::wait(std::uint32_t seen, std::chrono::nanoseconds timeout) {
  if (rings_ == seen) futex_wait(rings_, seen, timeout);
}

void Doorbell::wake() { futex_wake_all(rings_); }

}  // namespace horo::coordinator
