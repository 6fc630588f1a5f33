#include "horo/observe/flight_recorder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "horo/observe/crash_recorder.h"
#include "horo/observe/flight_copy.h"
#include "horo/observe/process_state.h"
#include "horo/observe/wall_clock.h"

namespace horo::observe {
namespace {

FlightIdentity identity_of(const FlightJob& job) {
  FlightIdentity identity = place_flight_tables();
  identity.job = job.id;
  identity.rank = job.rank;
  identity.size = job.size;
  identity.node = job.node;
  identity.node_count = job.node_count;
  identity.pid = getpid();
  identity.process_start = start_of_process(identity.pid).value_or(0);
  identity.machine = this_machine();
  identity.monotonic = flight_clock();
  identity.wall = wall_time_now();
  identity.clock_offset = job.clock_offset;
  job.host.copy(identity.host, sizeof identity.host - 1);
  return identity;
}

// Of the marks of a plan, enough to see that one was set.
std::uint64_t sum_of(std::span<const FlightMark> marks) {
  std::uint64_t sum = 0;
  for (const FlightMark& mark : marks) sum += look_at(mark);
  return sum;
}

}  // namespace

FlightRecorder::FlightRecorder(const FlightJob& job)
    : path_(job.path),
      abort_(job.abort),
      memory_(job.path, place_flight_tables().file_bytes),
      layout_(memory_.bytes(), identity_of(job)),
      names_(layout_),
      open_(layout_),
      phase_kind_(static_cast<std::uint16_t>(name(kPhaseKind))),
      pause_kind_(static_cast<std::uint16_t>(name(kPauseKind))),
      sights_(layout_.plans.size()) {
  pulse();
  if (!path_.empty()) thread_ = std::jthread([this] { run_pulses(); });
}

FlightRecorder::~FlightRecorder() {
  const std::scoped_lock lock(sleep_mutex_);
  should_stop_ = true;
  wake_.notify_one();
}

void FlightRecorder::run_pulses() {
  std::unique_lock lock(sleep_mutex_);
  while (!wake_.wait_for(lock, kPulseInterval, [this] { return should_stop_; })) pulse();
}

void FlightRecorder::add(const FlightRecord& finished) {
  const std::uint64_t index =
      std::atomic_ref(layout_.header->status.records).fetch_add(1, std::memory_order_relaxed);
  write_latest_record(layout_.ring[index % layout_.ring.size()], finished, index + 1);
}

void FlightRecorder::count_finished(std::uint64_t operations) {
  std::atomic_ref(layout_.header->status.finished).fetch_add(operations, std::memory_order_relaxed);
}

void FlightRecorder::count_finished_buckets(std::uint64_t buckets) {
  buckets_.fetch_add(buckets);
  std::atomic_ref(layout_.header->status.finished).fetch_add(buckets);
}

std::uint64_t FlightRecorder::operations_finished() const {
  // In this order, so that buckets that are counted meanwhile make it less, never more.
  const std::uint64_t finished = std::atomic_ref(layout_.header->status.finished).load();
  return finished - std::min(finished, buckets_.load());
}

FlightRecorder::Stretch FlightRecorder::begin(StretchKind kind, std::string_view text) {
  Stretch stretch{.name = name(text), .since = flight_clock()};
  FlightStatus& status = layout_.header->status;
  const bool is_phase = kind == StretchKind::kPhase;
  const std::scoped_lock lock(state_mutex_);
  NameId& current = is_phase ? status.phase : status.pause;
  std::int64_t& since = is_phase ? status.phase_since : status.pause_since;
  stretch.outer = current;
  stretch.outer_since = since;
  publish(since, stretch.since);
  publish(current, stretch.name);
  return stretch;
}

void FlightRecorder::end(StretchKind kind, const Stretch& stretch) {
  const bool is_phase = kind == StretchKind::kPhase;
  FlightRecord record{};
  record.name = stretch.name;
  record.kind = is_phase ? phase_kind_ : pause_kind_;
  record.started = stretch.since;
  record.ended = flight_clock();
  add(record);
  FlightStatus& status = layout_.header->status;
  const std::scoped_lock lock(state_mutex_);
  publish(is_phase ? status.phase : status.pause, stretch.outer);
  publish(is_phase ? status.phase_since : status.pause_since, stretch.outer_since);
}

void FlightRecorder::fail(std::string_view text) noexcept {
  const std::scoped_lock lock(state_mutex_);
  if (abort_ != nullptr && abort_->is_raised())
    end_with(FlightState::kAborted, abort_->view());
  else
    end_with(FlightState::kFailed, text);
}

void FlightRecorder::give_up(std::string_view text) noexcept {
  const std::scoped_lock lock(state_mutex_);
  end_with(FlightState::kAborted, text);
}

void FlightRecorder::end_with(FlightState state, std::string_view text) noexcept {
  FlightStatus& status = layout_.header->status;
  if (status.state != FlightState::kRunning) return;
  text.copy(status.failure, sizeof status.failure - 1);
  publish(status.state_since, flight_clock());
  publish_last(status.state, state);
}

void FlightRecorder::note_error(std::string_view text) {
  const std::scoped_lock lock(state_mutex_);
  last_error_ = text;
}

std::string FlightRecorder::last_error() const {
  const std::scoped_lock lock(state_mutex_);
  return last_error_;
}

void FlightRecorder::end() noexcept {
  const std::scoped_lock lock(state_mutex_);
  FlightStatus& status = layout_.header->status;
  if (status.state != FlightState::kRunning) return;
  publish(status.state_since, flight_clock());
  publish(status.state, FlightState::kEnded);
}

void FlightRecorder::pulse() {
  forget_survived_fault();
  const std::int64_t now = flight_clock();
  publish(layout_.header->status.pulse, now);
  pulses_.fetch_add(1, std::memory_order_relaxed);
  const std::scoped_lock lock(plans_mutex_);
  for (std::size_t i = 0; i < layout_.plans.size(); ++i) {
    FlightPlanEntry& plan = layout_.plans[i];
    if (plan.name == 0) continue;
    PlanSight sight{look_at(plan.progress),
                    sum_of(layout_.marks.subspan(plan.first, plan.gradients)), plan.slot_uses};
    PlanSight& before = sights_[i];
    const bool is_new = before.slot_uses != sight.slot_uses;
    const auto step_of = [](const PlanSight& seen) {
      return FlightProgress::unpack(seen.progress).step;
    };
    if (step_of(sight) != (is_new ? 0 : step_of(before))) publish(plan.step_at, now);
    if (is_new || before.progress != sight.progress || before.marks != sight.marks)
      publish(plan.progress_at, now);
    before = sight;
  }
}

std::vector<std::byte> FlightRecorder::image() const {
  std::vector<std::byte> copy(memory_.bytes().size());
  const std::scoped_lock lock(state_mutex_, plans_mutex_, names_.mutex());
  auto* words = reinterpret_cast<std::uint64_t*>(memory_.bytes().data());
  for (std::size_t i = 0; i < copy.size() / sizeof(std::uint64_t); ++i) {
    // Acquire: what a row holds is not older than the sequence before it, nor younger than what is
    // compared below.
    const std::uint64_t word = std::atomic_ref(words[i]).load(std::memory_order_acquire);
    std::memcpy(copy.data() + i * sizeof word, &word, sizeof word);
  }
  const std::uint64_t records = look_at(layout_.header->status.records);
  std::memcpy(copy.data() + kRecordsAt, &records, sizeof records);
  std::vector<std::uint64_t> sequences;
  for (const FlightRecord& row : layout_.open) sequences.push_back(look_at(row.sequence));
  drop_changed_rows(copy, layout_.header->identity.open, sequences);
  return copy;
}

}  // namespace horo::observe
