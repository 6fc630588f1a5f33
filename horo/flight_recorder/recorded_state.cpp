#include "horo/flight_recorder/recorded_state.h"

#include "horo/flight_recorder/crash_recorder.h"
#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {
namespace {

// The number of latest ring records to read. In usual programs, so many records include an
// operation or a bucket, and not only phases, pauses and waits.
constexpr std::uint64_t kMaxFinished = 64;

}  // namespace

// The recorder updates the progress times only at each pulse. When a plan continues after an idle
// time, its recorded time is therefore too old until the next pulse. So this function compares
// successive snapshots instead.
void RecordedState::update_progress_times(FlightLog& log, WallTime now) {
  std::map<PlanKey, Observation> seen;
  for (FlightPlanState& plan : log.plans) {
    const PlanKey key(plan.lane, plan.lane_uses);
    const auto before = plans_.find(key);
    const bool is_unchanged =
        before != plans_.end() && before->second.progress == plan.progress.packed();
    plan.progress_at = is_unchanged ? before->second.since : now;
    seen[key] = {plan.progress.packed(), plan.progress_at};
  }
  plans_ = std::move(seen);
}

RankSnapshot RecordedState::snapshot() {
  clear_survived_fault();  // the recorder's thread does so only at its next pulse
  // A recorder without a file has no thread that calls pulse().
  if (recorder_.path().empty()) recorder_.pulse();
  FlightLog log = parse_flight(recorder_.image(), kMaxFinished);
  // The times in the log are by rank 0's clock, as measured at the start of the job. `offset`
  // converts them to this host's current wall clock.
  const WallTime now = log.begun + flight_clock() - recorder_.layout().header->identity.monotonic;
  const WallTime offset = wall_time_now() - now;
  update_progress_times(log, now);
  RankSnapshot snapshot = live_snapshot_of(log, now);
  shift_times(snapshot, offset);
  return snapshot;
}

}  // namespace horo::observe
