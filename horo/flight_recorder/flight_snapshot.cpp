#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "horo/base/hash.h"
#include "horo/flight_recorder/crash_recorder.h"
#include "horo/flight_recorder/flight_reader.h"
#include "horo/flight_recorder/process_state.h"
#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {
namespace {

// A process that this process cannot look up may run on another host or in another container. Such
// a process counts as alive if its last pulse is younger than this.
constexpr WallTime kFreshPulse = 2'000'000'000;
// If a rank is killed after a stop request, its last pulse is assumed to be at most kStopLead
// before and at most kStopLag after the request.
constexpr WallTime kStopLead = 1'000'000'000;
constexpr WallTime kStopLag = 15'000'000'000;
// A live snapshot lists at most this many gradients of a bucket that is being exchanged.
constexpr std::size_t kMostNamedGradients = 60;

enum class WriterState { kAlive, kStopped, kGone, kUnreachable };

// Looks the process up only on its own machine. The start time distinguishes the process from a
// later process with the same id.
WriterState writer_state(const FlightLog& log) {
  if (log.machine != 0 && log.machine == machine_id()) {
    switch (state_of_process(log.pid, log.process_start)) {
      case ProcessState::kRunning:
        return WriterState::kAlive;
      case ProcessState::kStopped:
        return WriterState::kStopped;
      case ProcessState::kGone:
        return WriterState::kGone;
      case ProcessState::kUnknown:
        break;
    }
  }
  const WallTime now = wall_time_now() + log.clock_offset;
  return now - log.pulse < kFreshPulse ? WriterState::kAlive : WriterState::kUnreachable;
}

std::uint64_t id_of(const FlightPlanState& plan) {
  return Hash().add(plan.process_set).add(plan.name).value();
}

PlanPosition position_in(const FlightPlanState& plan) {
  return {id_of(plan), plan.progress.step * FlightProgress::kMostBuckets + plan.progress.bucket};
}

// Returns an operation that represents the current bucket or, after the last bucket, the end of the
// step. Used where the gradients of the bucket are not listed one by one.
OpenOperation bucket_operation(const FlightPlanState& plan) {
  const std::string part = plan.progress.bucket < plan.buckets
                               ? fmt::format("bucket {}", plan.progress.bucket)
                               : "end of step";
  return {plan.name + "/" + part, kBucketKind,      plan.process_set, 0,
          plan.progress_at,       plan.progress_at, id_of(plan)};
}

// Adds the marked gradients of the current and later buckets, in the order of the buckets. If the
// gradients are unknown or the step is at its end, also adds the operation that bucket_operation()
// returns.
void add_plan(const FlightPlanState& plan, RankSnapshot& snapshot) {
  const bool is_concluding = plan.progress.bucket >= plan.buckets;
  if (plan.progress.is_exchanging && (plan.gradients.empty() || is_concluding))
    snapshot.open.push_back(bucket_operation(plan));
  std::vector<const FlightPlanState::Gradient*> marked;
  for (const auto& gradient : plan.gradients)
    if (gradient.is_marked && gradient.bucket >= plan.progress.bucket) marked.push_back(&gradient);
  std::stable_sort(marked.begin(), marked.end(),
                   [](const auto* a, const auto* b) { return a->bucket < b->bucket; });
  for (const auto* gradient : marked) {
    const bool is_exchanged =
        plan.progress.is_exchanging && gradient->bucket == plan.progress.bucket;
    snapshot.open.push_back({plan.name + "/" + gradient->name, kGradientKind, plan.process_set, 0,
                             plan.progress_at, is_exchanged ? plan.progress_at : 0, id_of(plan)});
  }
}

void set_last_finished(const FlightLog& log, RankSnapshot& snapshot) {
  const auto update = [&](const std::string& name, WallTime at) {
    if (at <= snapshot.last_finished_at) return;
    snapshot.last_finished = name;
    snapshot.last_finished_at = at;
  };
  for (const FlightEvent& event : log.finished_events)
    if (event.kind != kPhaseKind && event.kind != kPauseKind && event.kind != kWaitKind)
      update(event.name, event.ended);
  for (const FlightPlanState& plan : log.plans)
    if (plan.progress.step > 0)
      update(fmt::format("{} step {}", plan.name, plan.progress.step - 1), plan.step_at);
}

std::string crash_text(const FlightLog& log) {
  const char* text = sigdescr_np(log.signal);
  return fmt::format("rank {} (host {}, pid {}) crashed: signal {} ({})", log.rank, log.host,
                     log.pid, log.signal, text == nullptr ? "?" : text);
}

void set_signal(const FlightLog& log, RankSnapshot& snapshot) {
  snapshot.taken = log.signal_at;
  if (!is_termination_signal(log.signal)) snapshot.failure = crash_text(log);
}

// The longest time that the program's signal handler is assumed to need to end the process or to
// repair the fault.
constexpr WallTime kLongestHandler = 1'000'000'000;

// Reports a crash if the process is still running because the program's signal handler has not
// returned for kLongestHandler.
void set_unfinished_crash(const FlightLog& log, WallTime now, RankSnapshot& snapshot) {
  if (log.state != FlightState::kRunning || log.signal == 0 || is_termination_signal(log.signal))
    return;
  if (now - log.signal_at < kLongestHandler) return;
  snapshot.taken = log.signal_at;
  snapshot.failure = crash_text(log) + ", but its process is still running";
}

bool is_leaving(const RankSnapshot& snapshot) {
  return std::any_of(snapshot.open.begin(), snapshot.open.end(), [](const OpenOperation& open) {
    return open.kind == kShutdownKind && open.process_set.empty();
  });
}

// The record of an end, a failure or a signal takes precedence over the state of the process,
// because a log may be read long after the process has ended.
void set_liveness(const FlightLog& log, RankSnapshot& snapshot) {
  if (log.state == FlightState::kEnded || is_leaving(snapshot))
    snapshot.liveness = Liveness::kEnded;
  if (log.state != FlightState::kRunning) return;
  if (log.signal != 0) return set_signal(log, snapshot);
  const WriterState state = writer_state(log);
  if (state == WriterState::kGone || state == WriterState::kUnreachable) {
    snapshot.liveness = Liveness::kDead;
    return;
  }
  snapshot.taken = wall_time_now() + log.clock_offset;
  if (state == WriterState::kStopped) snapshot.liveness = Liveness::kStopped;
}

OpenOperation operation_of(const FlightEvent& event) {
  return {event.name,    event.kind, event.process_set, event.bytes, event.submitted,
          event.started, 0};
}

// If several callbacks run (as with process sets), the oldest is reported.
void add_open(const FlightEvent& event, RankSnapshot& snapshot) {
  if (event.kind != kCallbackKind) {
    snapshot.open.push_back(operation_of(event));
  } else if (snapshot.callback.empty() || event.submitted < snapshot.callback_since) {
    snapshot.callback = event.name;
    snapshot.callback_since = event.submitted;
  }
}

void sort_by_age(std::vector<OpenOperation>& open) {
  std::stable_sort(open.begin(), open.end(),
                   [](const auto& a, const auto& b) { return a.submitted < b.submitted; });
}

// Sets the fields that snapshot_of() and live_snapshot_of() have in common.
RankSnapshot base_snapshot(const FlightLog& log) {
  RankSnapshot snapshot;
  snapshot.rank = log.rank;
  snapshot.host = log.host;
  snapshot.pid = log.pid;
  snapshot.last_sign_of_life = std::max({log.pulse, log.signal_at, log.state_since});
  snapshot.taken = snapshot.last_sign_of_life;
  // A snapshot of a rank that has failed or ended describes the time of that event.
  if (log.state != FlightState::kRunning) snapshot.taken = log.state_since;
  snapshot.finished = log.finished;
  snapshot.unlisted = log.unlisted;
  for (const FlightPlanState& plan : log.plans)
    if (snapshot.plans.size() < kMostPlanPositions) snapshot.plans.push_back(position_in(plan));
  snapshot.phase = log.phase;
  snapshot.phase_since = log.phase_since;
  snapshot.pause = log.pause;
  snapshot.pause_since = log.pause_since;
  snapshot.is_aborted = log.state == FlightState::kAborted;
  if (log.state == FlightState::kFailed || snapshot.is_aborted) snapshot.failure = log.failure;
  set_last_finished(log, snapshot);
  return snapshot;
}

// Includes the bucket that is exchanged now or next. Also includes the bucket after it, because
// another rank may already wait for this rank in that bucket. No rank can wait in a later bucket. A
// marked gradient whose bucket is not exchanged yet does not block this rank either, so its
// submission time is `now`.
void add_live_plan(const FlightPlanState& plan, WallTime now, RankSnapshot& snapshot) {
  for (const std::uint32_t bucket : {plan.progress.bucket, plan.progress.bucket + 1}) {
    const bool is_exchanged = plan.progress.is_exchanging && bucket == plan.progress.bucket;
    std::size_t named = 0;
    for (const FlightPlanState::Gradient& gradient : plan.gradients) {
      if (gradient.bucket != bucket || !gradient.is_marked) continue;
      if (is_exchanged && ++named > kMostNamedGradients) break;
      OpenOperation open{
          plan.name + "/" + gradient.name, kGradientKind, plan.process_set, 0, now, 0, id_of(plan)};
      if (is_exchanged) open.submitted = open.started = plan.progress_at;
      if (is_exchanged) open.bytes = plan.bytes;
      snapshot.open.push_back(std::move(open));
    }
    if (is_exchanged && (named == 0 || named > kMostNamedGradients)) {
      snapshot.open.push_back(bucket_operation(plan));
      snapshot.open.back().bytes = plan.bytes;
    }
  }
}

}  // namespace

// If the last pulse is too long before or after the request (kStopLead, kStopLag), the rank is
// assumed to have ended for another reason.
void apply_stop_request(FlightLog& log, int signal, WallTime at) {
  if (log.state != FlightState::kRunning || log.signal != 0 || is_writer_alive(log)) return;
  if (log.pulse < at - kStopLead || log.pulse > at + kStopLag) return;
  log.signal = signal;
  log.signal_at = std::max(log.pulse, at);
}

bool was_terminated_by_signal(const FlightLog& log) {
  return log.signal != 0 && is_termination_signal(log.signal);
}

bool is_writer_alive(const FlightLog& log) {
  const WriterState state = writer_state(log);
  return state == WriterState::kAlive || state == WriterState::kStopped;
}

RankSnapshot snapshot_of(const FlightLog& log) {
  RankSnapshot snapshot = base_snapshot(log);
  for (const FlightEvent& event : log.open_events)
    if (event.kind != kCallbackKind || event.given_up == 0) add_open(event, snapshot);
  for (const FlightPlanState& plan : log.plans) add_plan(plan, snapshot);
  sort_by_age(snapshot.open);
  set_liveness(log, snapshot);
  return snapshot;
}

RankSnapshot live_snapshot_of(const FlightLog& log, WallTime now) {
  RankSnapshot snapshot = base_snapshot(log);
  snapshot.last_sign_of_life = now;
  if (log.state == FlightState::kRunning) snapshot.taken = now;
  set_unfinished_crash(log, now, snapshot);
  for (const FlightEvent& event : log.open_events)
    if (event.given_up == 0) add_open(event, snapshot);
  for (const FlightPlanState& plan : log.plans)
    if (!plan.is_given_up) add_live_plan(plan, now, snapshot);
  sort_by_age(snapshot.open);
  // While plans exist, another thread of the rank may still exchange buckets.
  if (log.plans.empty() && is_leaving(snapshot)) snapshot.liveness = Liveness::kEnded;
  return snapshot;
}

}  // namespace horo::observe
