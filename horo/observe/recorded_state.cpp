#include "horo/observe/recorded_state.h"

#include "horo/observe/flight_reader.h"
#include "horo/observe/wall_clock.h"

namespace horo::observe {
namespace {

// Among which the last is that is no phase.
constexpr std::uint64_t kLatest = 64;

}  // namespace

RankSnapshot RecordedState::snapshot() {
  // A recorder without a file has no thread that does.
  if (recorder_.path().empty()) recorder_.pulse();
  const FlightLog log = parse_flight(recorder_.image(), kLatest);
  // The log's clock is rank 0's as it was when the job started.
  const WallTime now = log.begun + flight_clock() - recorder_.layout().header->identity.monotonic;
  const WallTime offset = wall_time_now() - now;
  RankSnapshot snapshot = live_snapshot_of(log, now);
  shift_times(snapshot, offset);
  return snapshot;
}

}  // namespace horo::observe
