#include "horo/observe/liveness.h"

namespace horo::observe {
namespace {

// A zombie whose heart beats is a process whose first thread has ended before the others.
constexpr auto kFreshHeartbeat = std::chrono::seconds(2);
// Whose heart has just beaten is there, whatever is found under its number: two beats.
constexpr auto kLastHeartbeat = std::chrono::seconds(1);

Liveness judge_missing(std::chrono::nanoseconds silence) {
  return silence > kLastHeartbeat ? Liveness::kDead : Liveness::kRunning;
}

}  // namespace

Liveness judge_liveness(const Sighting& sighting, std::chrono::nanoseconds silent_after) {
  if (sighting.has_left) return Liveness::kEnded;
  if (!sighting.is_visible)
    return sighting.silence > silent_after ? Liveness::kSilent : Liveness::kRunning;
  // A number that belongs to another process by now has been given up by the rank.
  if (!sighting.process || sighting.process->start_time != sighting.start_time)
    return judge_missing(sighting.silence);
  switch (sighting.process->state) {
    case 'X':
    case 'x':
      return judge_missing(sighting.silence);
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
