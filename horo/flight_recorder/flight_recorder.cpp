#include "horo/flight_recorder/flight_recorder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "horo/flight_recorder/crash_recorder.h"
#include "horo/flight_recorder/flight_memory.h"
#include "horo/flight_recorder/process_state.h"
#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {
namespace {

FlightIdentity identity_of(const FlightJob& job) {
  FlightIdentity identity = flight_table_offsets();
  identity.job = job.id;
  identity.rank = job.rank;
  identity.size = job.size;
  identity.node = job.node;
  identity.node_count = job.node_count;
  identity.pid = getpid();
  identity.process_start = process_start_time(identity.pid).value_or(0);
  identity.machine = machine_id();
  identity.monotonic = flight_clock();
  identity.wall = wall_time_now();
  identity.clock_offset = job.clock_offset;
  job.host.copy(identity.host, sizeof identity.host - 1);
  return identity;
}

// Returns the sum of a plan's marks. Marks never decrease, so the sum changes whenever a gradient
// is marked in a new step.
std::uint64_t sum_of(std::span<const FlightMark> marks) {
  std::uint64_t sum = 0;
  for (const FlightMark& mark : marks) sum += load_relaxed(mark);
  return sum;
}

}  // namespace

FlightRecorder::FlightRecorder(const FlightJob& job)
    : path_(job.path),
      abort_(job.abort),
      memory_(job.path, flight_table_offsets().file_bytes),
      layout_(memory_.bytes(), identity_of(job)),
      names_(layout_),
      open_(layout_),
      phase_kind_(static_cast<std::uint16_t>(name(kPhaseKind))),
      pause_kind_(static_cast<std::uint16_t>(name(kPauseKind))),
      observations_(layout_.plans.size()) {
  pulse();
  if (!path_.empty()) thread_ = std::jthread([this] { run_pulses(); });
}

// The destructor of thread_, the last member, joins the thread while all other members exist.
FlightRecorder::~FlightRecorder() {
  const std::scoped_lock lock(sleep_mutex_);
  should_stop_ = true;
  wake_.notify_one();
}

void FlightRecorder::run_pulses() {
  std::unique_lock lock(sleep_mutex_);
  while (!wake_.wait_for(lock, kPulseInterval, [this] { return should_stop_; })) pulse();
}

// The counter assigns a sequence and a slot to each record. If other threads fill the whole ring
// before this thread has written its record, the record may be lost; see write_latest_record().
void FlightRecorder::add(const FlightRecord& finished) {
  const std::uint64_t index =
      std::atomic_ref(layout_.header->status.records).fetch_add(1, std::memory_order_relaxed);
  write_latest_record(layout_.ring[index % layout_.ring.size()], finished, index + 1);
}

void FlightRecorder::count_finished(std::uint64_t operations) {
  std::atomic_ref(layout_.header->status.finished).fetch_add(operations, std::memory_order_relaxed);
}

// Increments buckets_ first; see operations_finished().
void FlightRecorder::count_finished_buckets(std::uint64_t buckets) {
  buckets_.fetch_add(buckets);
  std::atomic_ref(layout_.header->status.finished).fetch_add(buckets);
}

std::uint64_t FlightRecorder::operations_finished() const {
  // `finished` is read before buckets_. Buckets that are counted in between make the result
  // smaller, never larger.
  const std::uint64_t finished = std::atomic_ref(layout_.header->status.finished).load();
  return finished - std::min(finished, buckets_.load());
}

FlightRecorder::Span FlightRecorder::begin(SpanKind kind, std::string_view text) {
  Span span{.name = name(text), .since = flight_clock()};
  FlightStatus& status = layout_.header->status;
  const bool is_phase = kind == SpanKind::kPhase;
  const std::scoped_lock lock(state_mutex_);
  NameId& current = is_phase ? status.phase : status.pause;
  std::int64_t& since = is_phase ? status.phase_since : status.pause_since;
  span.outer = current;
  span.outer_since = since;
  // The time is stored before the name, so that a reader that sees the new name rarely sees the old
  // time.
  store_relaxed(since, span.since);
  store_relaxed(current, span.name);
  return span;
}

void FlightRecorder::end(SpanKind kind, const Span& span) {
  const bool is_phase = kind == SpanKind::kPhase;
  FlightRecord record{};
  record.name = span.name;
  record.kind = is_phase ? phase_kind_ : pause_kind_;
  record.started = span.since;
  record.ended = flight_clock();
  add(record);
  FlightStatus& status = layout_.header->status;
  const std::scoped_lock lock(state_mutex_);
  store_relaxed(is_phase ? status.phase : status.pause, span.outer);
  store_relaxed(is_phase ? status.phase_since : status.pause_since, span.outer_since);
}

// After an abort, the text of the abort signal names the cause. The error of this rank is usually a
// consequence of that cause.
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

// The state is stored last with release order, so that a reader that sees the new state also sees
// the text.
void FlightRecorder::end_with(FlightState state, std::string_view text) noexcept {
  FlightStatus& status = layout_.header->status;
  if (status.state != FlightState::kRunning) return;
  text.copy(status.failure, sizeof status.failure - 1);
  store_relaxed(status.state_since, flight_clock());
  store_release(status.state, state);
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
  store_relaxed(status.state_since, flight_clock());
  store_relaxed(status.state, FlightState::kEnded);
}

// While the loop holds plans_mutex_, no plan can register or unregister. Plans change their
// progress and marks without the lock, so the loop reads progress and marks with relaxed loads.
void FlightRecorder::pulse() {
  clear_survived_fault();
  const std::int64_t now = flight_clock();
  store_relaxed(layout_.header->status.pulse, now);
  pulses_.fetch_add(1, std::memory_order_relaxed);
  const std::scoped_lock lock(plans_mutex_);
  for (std::size_t i = 0; i < layout_.plans.size(); ++i) {
    FlightPlanEntry& plan = layout_.plans[i];
    if (plan.name == 0) continue;
    PlanObservation current{load_relaxed(plan.progress),
                            sum_of(layout_.marks.subspan(plan.first, plan.gradients)),
                            plan.slot_uses};
    PlanObservation& before = observations_[i];
    const bool is_new = before.slot_uses != current.slot_uses;
    const auto step_of = [](const PlanObservation& seen) {
      return FlightProgress::unpack(seen.progress).step;
    };
    if (step_of(current) != (is_new ? 0 : step_of(before))) store_relaxed(plan.step_at, now);
    if (is_new || before.progress != current.progress || before.marks != current.marks)
      store_relaxed(plan.progress_at, now);
    before = current;
  }
}

// Copies the memory while other threads record. The three locks prevent changes of the phase, the
// pause, the state, the set of registered plans, and the names, except that a crash handler changes
// the state without a lock. Records and the progress of plans also change without a lock. The
// number of ring records and the sequences of the open rows are therefore read again after the
// copy.
std::vector<std::byte> FlightRecorder::image() const {
  std::vector<std::byte> copy(memory_.bytes().size());
  const std::scoped_lock lock(state_mutex_, plans_mutex_, names_.mutex());
  auto* words = reinterpret_cast<std::uint64_t*>(memory_.bytes().data());
  for (std::size_t i = 0; i < copy.size() / sizeof(std::uint64_t); ++i) {
    // Acquire order: the copied fields of a row are at least as new as its sequence, which is
    // copied first. If a field belongs to a later use of the row, the sequence that is read below
    // differs from the copied one.
    const std::uint64_t word = std::atomic_ref(words[i]).load(std::memory_order_acquire);
    std::memcpy(copy.data() + i * sizeof word, &word, sizeof word);
  }
  const std::uint64_t records = load_relaxed(layout_.header->status.records);
  std::memcpy(copy.data() + kRecordsAt, &records, sizeof records);
  std::vector<std::uint64_t> sequences;
  for (const FlightRecord& row : layout_.open) sequences.push_back(load_relaxed(row.sequence));
  drop_changed_rows(copy, layout_.header->identity.open, sequences);
  return copy;
}

}  // namespace horo::observe
