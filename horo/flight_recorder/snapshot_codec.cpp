#include "horo/flight_recorder/snapshot_codec.h"

#include <algorithm>

#include "horo/base/byte_fields.h"

namespace horo::observe {
namespace {

// Encodes RankSnapshot::is_aborted.
enum class Origin { kOwn, kAborted };
// Encodes RankSnapshot::has_overdue_wait.
enum class Overdue { kNo, kYes };

constexpr int kLivenessCount = 5;
constexpr std::size_t kMaxNameBytes = 160;
constexpr std::size_t kMaxKindBytes = 32;
constexpr std::size_t kMaxSetBytes = 240;
constexpr std::size_t kMaxFailureBytes = 1000;
// The minimum size of an encoded operation: three text lengths, a number of bytes, two times and a
// plan.
constexpr std::size_t kFixedOperationBytes = 3 * 4 + 4 * 8;
// Limits of the measured times. Because of these limits, an encoded snapshot has room for at least
// 57 open operations, even if all texts have their maximum length.
constexpr std::size_t kMostPhases = 10;
constexpr std::size_t kMaxPhaseNameBytes = 40;
constexpr std::size_t kFixedPhaseBytes = 4 + 8;
constexpr std::size_t kMostPlans = 4;
constexpr std::size_t kMaxPlanNameBytes = 64;
constexpr std::size_t kMostWaits = 32;
constexpr std::size_t kFixedPlanBytes = 2 * 4 + 4 + 8 + 4;

void put(FieldWriter& writer, const OpenOperation& operation) {
  writer.put_text(operation.name, kMaxNameBytes);
  writer.put_text(operation.kind, kMaxKindBytes);
  writer.put_text(operation.process_set, kMaxSetBytes);
  writer.put(operation.bytes);
  writer.put(operation.submitted);
  writer.put(operation.started);
  writer.put(operation.plan);
}

void put(FieldWriter& writer, const MeasuredTimes& times) {
  writer.put(times.own);
  writer.put(times.blocked);
  const std::size_t phases = std::min(times.phases.size(), kMostPhases);
  writer.put(static_cast<std::uint32_t>(phases));
  for (const MeasuredTimes::PhaseTime& phase : std::span(times.phases).first(phases)) {
    writer.put_text(phase.name, kMaxPhaseNameBytes);
    writer.put(phase.time);
  }
  const std::size_t plans = std::min(times.plans.size(), kMostPlans);
  writer.put(static_cast<std::uint32_t>(plans));
  for (const MeasuredTimes::Plan& plan : std::span(times.plans).first(plans)) {
    writer.put_text(plan.name, kMaxPlanNameBytes);
    writer.put_text(plan.process_set, kMaxPlanNameBytes);
    writer.put(plan.ranks);
    writer.put(plan.steps);
    const std::size_t waits = std::min(plan.waits.size(), kMostWaits);
    writer.put(static_cast<std::uint32_t>(waits));
    for (const std::int64_t wait : std::span(plan.waits).last(waits)) writer.put(wait);
  }
}

MeasuredTimes get_times(FieldReader& reader) {
  MeasuredTimes times;
  times.own = reader.get<std::int64_t>();
  times.blocked = reader.get<std::int64_t>();
  times.phases.resize(reader.get_count(kFixedPhaseBytes));
  for (MeasuredTimes::PhaseTime& phase : times.phases) {
    phase.name = reader.get_text();
    phase.time = reader.get<std::int64_t>();
  }
  times.plans.resize(reader.get_count(kFixedPlanBytes));
  for (MeasuredTimes::Plan& plan : times.plans) {
    plan.name = reader.get_text();
    plan.process_set = reader.get_text();
    plan.ranks = reader.get<std::int32_t>();
    plan.steps = reader.get<std::uint64_t>();
    plan.waits.resize(reader.get_count(sizeof(std::int64_t)));
    for (std::int64_t& wait : plan.waits) wait = reader.get<std::int64_t>();
  }
  return times;
}

OpenOperation get_operation(FieldReader& reader) {
  OpenOperation operation;
  operation.name = reader.get_text();
  operation.kind = reader.get_text();
  operation.process_set = reader.get_text();
  operation.bytes = reader.get<std::uint64_t>();
  operation.submitted = reader.get<WallTime>();
  operation.started = reader.get<WallTime>();
  operation.plan = reader.get<std::uint64_t>();
  return operation;
}

std::uint64_t count_named(std::span<const OpenOperation> operations) {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(operations, [](const auto& open) { return !is_of_plan(open); }));
}

}  // namespace

std::vector<std::byte> encode(const RankSnapshot& snapshot) {
  FieldWriter writer;
  writer.put(static_cast<std::int32_t>(snapshot.rank));
  writer.put_text(snapshot.host, kMaxNameBytes);
  writer.put(snapshot.pid);
  writer.put(static_cast<std::int32_t>(snapshot.liveness));
  writer.put(snapshot.taken);
  writer.put(snapshot.last_sign_of_life);
  writer.put(snapshot.finished);
  writer.put_text(snapshot.last_finished, kMaxNameBytes);
  writer.put(snapshot.last_finished_at);
  writer.put_text(snapshot.phase, kMaxNameBytes);
  writer.put(snapshot.phase_since);
  writer.put_text(snapshot.pause, kMaxNameBytes);
  writer.put(snapshot.pause_since);
  writer.put_text(snapshot.callback, kMaxNameBytes);
  writer.put(snapshot.callback_since);
  writer.put_text(snapshot.failure, kMaxFailureBytes);
  writer.put(static_cast<std::int32_t>(snapshot.is_aborted ? Origin::kAborted : Origin::kOwn));
  writer.put(static_cast<std::int32_t>(snapshot.has_overdue_wait ? Overdue::kYes : Overdue::kNo));
  put(writer, snapshot.times);
  const std::size_t plans = std::min(snapshot.plans.size(), kMostPlanPositions);
  writer.put(static_cast<std::uint32_t>(plans));
  for (const PlanPosition& position : std::span(snapshot.plans).first(plans)) {
    writer.put(position.plan);
    writer.put(position.buckets);
  }

  // In the format, the number of operations precedes the operations. The number is known only after
  // they are encoded, so they are encoded into a separate list.
  std::vector<std::byte> list;
  std::uint32_t count = 0;
  const std::size_t room =
      kMaxSnapshotBytes - writer.size() - sizeof snapshot.unlisted - sizeof count;
  for (const OpenOperation& operation : snapshot.open) {
    FieldWriter next;
    put(next, operation);
    if (list.size() + next.size() > room) break;
    const std::vector<std::byte> bytes = next.take();
    list.insert(list.end(), bytes.begin(), bytes.end());
    ++count;
  }
  writer.put(snapshot.unlisted + count_named(std::span(snapshot.open).subspan(count)));
  writer.put(count);
  std::vector<std::byte> bytes = writer.take();
  bytes.insert(bytes.end(), list.begin(), list.end());
  return bytes;
}

std::optional<RankSnapshot> decode_snapshot(std::span<const std::byte> bytes) {
  FieldReader reader(bytes);
  RankSnapshot snapshot;
  snapshot.rank = reader.get<std::int32_t>();
  snapshot.host = reader.get_text();
  snapshot.pid = reader.get<std::int64_t>();
  snapshot.liveness = reader.get_enum<Liveness>(kLivenessCount);
  snapshot.taken = reader.get<WallTime>();
  snapshot.last_sign_of_life = reader.get<WallTime>();
  snapshot.finished = reader.get<std::uint64_t>();
  snapshot.last_finished = reader.get_text();
  snapshot.last_finished_at = reader.get<WallTime>();
  snapshot.phase = reader.get_text();
  snapshot.phase_since = reader.get<WallTime>();
  snapshot.pause = reader.get_text();
  snapshot.pause_since = reader.get<WallTime>();
  snapshot.callback = reader.get_text();
  snapshot.callback_since = reader.get<WallTime>();
  snapshot.failure = reader.get_text();
  snapshot.is_aborted = reader.get_enum<Origin>(2) == Origin::kAborted;
  snapshot.has_overdue_wait = reader.get_enum<Overdue>(2) == Overdue::kYes;
  snapshot.times = get_times(reader);
  snapshot.plans.resize(reader.get_count(sizeof(PlanPosition)));
  for (PlanPosition& position : snapshot.plans) {
    position.plan = reader.get<std::uint64_t>();
    position.buckets = reader.get<std::uint64_t>();
  }
  snapshot.unlisted = reader.get<std::uint64_t>();
  snapshot.open.resize(reader.get_count(kFixedOperationBytes));
  for (OpenOperation& operation : snapshot.open) operation = get_operation(reader);
  if (!reader.is_whole() || bytes.size() > kMaxSnapshotBytes) return std::nullopt;
  return snapshot;
}

}  // namespace horo::observe
