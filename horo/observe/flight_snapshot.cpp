#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "horo/observe/crash_recorder.h"
#include "horo/observe/flight_reader.h"
#include "horo/observe/process_state.h"
#include "horo/observe/wall_clock.h"

namespace horo::observe {
namespace {

// A process that looks gone may live out of sight, in another container.
constexpr WallTime kFreshPulse = 2'000'000'000;
// The others of a bucket are told as the bucket.
// A rank that was killed with its job wrote its last pulse somewhat before, or while the launcher
// stopped the others.
constexpr WallTime kBeforeAStop = 1'000'000'000;
constexpr WallTime kAfterAStop = 15'000'000'000;
constexpr std::size_t kMostNamedGradients = 60;

enum class Sight { kAlive, kStopped, kGone, kOutOfSight };

Sight look_for_writer(const FlightLog& log) {
  if (log.machine != 0 && log.machine == this_machine()) {
    switch (state_of_process(log.pid, log.process_start)) {
      case ProcessState::kRunning:
        return Sight::kAlive;
      case ProcessState::kStopped:
        return Sight::kStopped;
      case ProcessState::kGone:
        return Sight::kGone;
      case ProcessState::kUnknown:
        break;
    }
  }
  const WallTime now = wall_time_now() + log.clock_offset;
  return now - log.pulse < kFreshPulse ? Sight::kAlive : Sight::kOutOfSight;
}

// For a plan whose gradients found no room in the table of names, a bucket with too many of them to
// be told, and the end of a step.
OpenOperation bucket_operation(const FlightPlanState& plan) {
  const std::string part = plan.progress.bucket < plan.buckets
                               ? fmt::format("bucket {}", plan.progress.bucket)
                               : "end of step";
  return {plan.name + "/" + part, kBucketKind,     plan.process_set, 0,
          plan.progress_at,       plan.progress_at};
}

// The oldest first, as diagnose() looks for what has waited the longest.
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
                             plan.progress_at, is_exchanged ? plan.progress_at : 0});
  }
}

void note_last_finished(const FlightLog& log, RankSnapshot& snapshot) {
  const auto note = [&](const std::string& name, WallTime at) {
    if (at <= snapshot.last_finished_at) return;
    snapshot.last_finished = name;
    snapshot.last_finished_at = at;
  };
  for (const FlightEvent& event : log.finished_events)
    if (event.kind != kPhaseKind && event.kind != kPauseKind && event.kind != kWaitKind)
      note(event.name, event.ended);
  for (const FlightPlanState& plan : log.plans)
    if (plan.progress.step > 0)
      note(fmt::format("{} step {}", plan.name, plan.progress.step - 1), plan.step_at);
}

std::string crash_text(const FlightLog& log) {
  const char* text = sigdescr_np(log.signal);
  return fmt::format("rank {} (host {}, pid {}) crashed: signal {} ({})", log.rank, log.host,
                     log.pid, log.signal, text == nullptr ? "?" : text);
}

void note_signal(const FlightLog& log, RankSnapshot& snapshot) {
  snapshot.taken = log.signal_at;
  if (!is_outside_signal(log.signal)) snapshot.failure = crash_text(log);
}

// A handler of the program that ends the process, or repairs what was wrong, takes less.
constexpr WallTime kLongestHandler = 1'000'000'000;

// The process has crashed and is still there: a handler of the program does not return.
void note_crash_that_lasts(const FlightLog& log, WallTime now, RankSnapshot& snapshot) {
  if (log.state != FlightState::kRunning || log.signal == 0 || is_outside_signal(log.signal))
    return;
  if (now - log.signal_at < kLongestHandler) return;
  snapshot.taken = log.signal_at;
  snapshot.failure = crash_text(log) + ", and its process has not ended since";
}

bool is_leaving(const RankSnapshot& snapshot) {
  return std::any_of(snapshot.open.begin(), snapshot.open.end(), [](const OpenOperation& open) {
    return open.kind == kShutdownKind && open.process_set.empty();
  });
}

void note_liveness(const FlightLog& log, RankSnapshot& snapshot) {
  if (log.state == FlightState::kEnded || is_leaving(snapshot))
    snapshot.liveness = Liveness::kEnded;
  if (log.state != FlightState::kRunning) return;
  if (log.signal != 0) return note_signal(log, snapshot);
  const Sight sight = look_for_writer(log);
  if (sight == Sight::kGone || sight == Sight::kOutOfSight) {
    snapshot.liveness = Liveness::kDead;
    return;
  }
  snapshot.taken = wall_time_now() + log.clock_offset;
  if (sight == Sight::kStopped) snapshot.liveness = Liveness::kStopped;
}

OpenOperation operation_of(const FlightEvent& event) {
  return {event.name, event.kind, event.process_set, event.bytes, event.submitted, event.started};
}

// Of several callbacks, as of process sets, the oldest.
void note_open(const FlightEvent& event, RankSnapshot& snapshot) {
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

// Everything but what is open and how the process is.
RankSnapshot picture_of(const FlightLog& log) {
  RankSnapshot snapshot;
  snapshot.rank = log.rank;
  snapshot.host = log.host;
  snapshot.pid = log.pid;
  snapshot.last_sign_of_life = std::max({log.pulse, log.signal_at, log.state_since});
  snapshot.taken = snapshot.last_sign_of_life;
  // Since it gave up, a rank has only been kept from ending.
  if (log.state != FlightState::kRunning) snapshot.taken = log.state_since;
  snapshot.finished = log.finished;
  snapshot.unlisted = log.unlisted;
  snapshot.phase = log.phase;
  snapshot.phase_since = log.phase_since;
  snapshot.pause = log.pause;
  snapshot.pause_since = log.pause_since;
  snapshot.is_aborted = log.state == FlightState::kAborted;
  if (log.state == FlightState::kFailed || snapshot.is_aborted) snapshot.failure = log.failure;
  note_last_finished(log, snapshot);
  return snapshot;
}

// Of the bucket that is, or will next be, exchanged, and of the one after it, in which others may
// be already: what is marked after those keeps nobody. A gradient that is marked and not exchanged
// is not waited with: the program computes.
void add_live_plan(const FlightPlanState& plan, WallTime now, RankSnapshot& snapshot) {
  for (const std::uint32_t bucket : {plan.progress.bucket, plan.progress.bucket + 1}) {
    const bool is_exchanged = plan.progress.is_exchanging && bucket == plan.progress.bucket;
    std::size_t named = 0;
    for (const FlightPlanState::Gradient& gradient : plan.gradients) {
      if (gradient.bucket != bucket || !gradient.is_marked) continue;
      if (is_exchanged && ++named > kMostNamedGradients) break;
      OpenOperation open{
          plan.name + "/" + gradient.name, kGradientKind, plan.process_set, 0, now, 0};
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

void note_stop_order(FlightLog& log, int signal, WallTime at) {
  if (log.state != FlightState::kRunning || log.signal != 0 || is_writer_alive(log)) return;
  if (log.pulse < at - kBeforeAStop || log.pulse > at + kAfterAStop) return;
  log.signal = signal;
  log.signal_at = std::max(log.pulse, at);
}

bool was_ended_from_outside(const FlightLog& log) {
  return log.signal != 0 && is_outside_signal(log.signal);
}

bool is_writer_alive(const FlightLog& log) {
  const Sight sight = look_for_writer(log);
  return sight == Sight::kAlive || sight == Sight::kStopped;
}

RankSnapshot snapshot_of(const FlightLog& log) {
  RankSnapshot snapshot = picture_of(log);
  for (const FlightEvent& event : log.open_events)
    if (event.kind != kCallbackKind || event.given_up == 0) note_open(event, snapshot);
  for (const FlightPlanState& plan : log.plans) add_plan(plan, snapshot);
  sort_by_age(snapshot.open);
  note_liveness(log, snapshot);
  return snapshot;
}

RankSnapshot live_snapshot_of(const FlightLog& log, WallTime now) {
  RankSnapshot snapshot = picture_of(log);
  snapshot.last_sign_of_life = now;
  if (log.state == FlightState::kRunning) snapshot.taken = now;
  note_crash_that_lasts(log, now, snapshot);
  for (const FlightEvent& event : log.open_events)
    if (event.given_up == 0) note_open(event, snapshot);
  for (const FlightPlanState& plan : log.plans)
    if (!plan.is_given_up) add_live_plan(plan, now, snapshot);
  sort_by_age(snapshot.open);
  // With a plan another of its threads may go on.
  if (log.plans.empty() && is_leaving(snapshot)) snapshot.liveness = Liveness::kEnded;
  return snapshot;
}

}  // namespace horo::observe
