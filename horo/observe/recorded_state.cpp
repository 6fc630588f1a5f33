#include "horo/observe/recorded_state.h"

#include "horo/observe/crash_recorder.h"
#include "horo/observe/wall_clock.h"

namespace horo::observe {
namespace {

// Among which the last is that is no phase.
constexpr std::uint64_t kLatest = 64;

}  // namespace

// What the recorder notes of that itself may be older by all the time in which the plan rested,
// until the next pulse.
void RecordedState::note_exchanges(FlightLog& log, WallTime now) {
  std::map<PlanKey, Sight> seen;
  for (FlightPlanState& plan : log.plans) {
    const PlanKey key(plan.lane, plan.lane_uses);
    const auto before = plans_.find(key);
    const bool has_rested =
        before != plans_.end() && before->second.progress == plan.progress.packed();
    plan.progress_at = has_rested ? before->second.since : now;
    seen[key] = {plan.progress.packed(), plan.progress_at};
  }
  plans_ = std::move(seen);
}

RankSnapshot RecordedState::snapshot() {
  forget_survived_fault();  // The recorder's thread may be late.
  // A recorder without a file has no thread that does.
  if (recorder_.path().empty()) recorder_.pulse();
  FlightLog log = parse_flight(recorder_.image(), kLatest);
  // The log's clock is rank 0's as it was when the job started.
  const WallTime now = log.begun + flight_clock() - recorder_.layout().header->identity.monotonic;
  const WallTime offset = wall_time_now() - now;
  note_exchanges(log, now);
  RankSnapshot snapshot = live_snapshot_of(log, now);
  shift_times(snapshot, offset);
  return snapshot;
}

}  // namespace horo::observe
