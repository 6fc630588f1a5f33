#include "horo/observe/liveness.h"

namespace horo::observe {
namespace {

// A zombie whose heart beats is a process whose first thread has ended before the others.
constexpr auto kFreshHeartbeat = std::chrono::seconds(2);

}  // namespace

Liveness judge_liveness(const Sighting& sighting, std::chrono::nanoseconds silent_after) {
  if (sighting.has_left) return Liveness::kEnded;
  if (!sighting.is_visible)
    return sighting.silence > silent_after ? Liveness::kSilent : Liveness::kRunning;
  // A number that belongs to another process by now has been given up by the rank.
  if (!sighting.process || sighting.process->start_time != sighting.start_time)
    return Liveness::kDead;
  switch (sighting.process->state) {
    case 'X':
    case 'x':
      return Liveness::kDead;
    case 'Z':
      return sighting.silence > kFreshHeartbeat ? Liveness::kDead : Liveness::kRunning;
    case 'T':
    case 't':
      return Liveness::kStopped;
    default:
      return sighting.silence > 10 * silent_after ? Liveness::kSilent : Liveness::kRunning;
  }
}

}  // namespace horo::observe
