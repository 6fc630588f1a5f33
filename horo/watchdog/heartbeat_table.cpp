#include "horo/watchdog/heartbeat_table.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>

#include "horo/base/error.h"
#include "horo/base/hash.h"
#include "horo/flight_recorder/process_state.h"
#include "horo/flight_recorder/snapshot_codec.h"

namespace horo::observe {
namespace {

constexpr std::size_t kClaims = 16;

}  // namespace

// Written by all ranks of the node. A claim packs the upper half of the incident's hash and a time
// in milliseconds into one word, because a rank may be killed between two stores. The time wraps
// after 49 days, so ages are unsigned differences. No other data depends on these fields, so
// relaxed order is sufficient.
struct alignas(64) HeartbeatTable::NodeReports {
  std::atomic<Time::rep> explained_until{0};
  std::array<std::atomic<std::uint64_t>, kClaims> claims{};
};

// Only the rank itself writes its entry, and the entry consists of lock-free atomics. So a rank
// that is stopped or killed at any instruction does not block readers. `snapshot` is then
// unreadable if the rank was writing it.
struct alignas(64) HeartbeatTable::Entry {
  std::atomic<std::int64_t> pid{0};
  std::atomic<std::uint64_t> start_time{0};
  std::atomic<std::uint64_t> machine{0};
  std::atomic<std::uint64_t> heartbeat{0};
  std::atomic<bool> has_left{false};
  std::atomic<bool> has_hub_left{false};
  SeqlockBytes<kMaxSnapshotBytes> snapshot;
};

std::size_t HeartbeatTable::bytes_for(int ranks) {
  return sizeof(NodeReports) + static_cast<std::size_t>(ranks) * sizeof(Entry);
}

HeartbeatTable::HeartbeatTable(std::span<std::byte> memory, int local_rank, int ranks)
    : memory_(memory), local_rank_(local_rank), ranks_(ranks) {
  HORO_CHECK(memory_.size() >= bytes_for(ranks), "heartbeat table: too little memory");
  Entry& own = entry(local_rank_);
  const std::int64_t pid = getpid();
  const auto start_time = process_start_time(pid);
  own.start_time = start_time.value_or(0);
  own.machine = start_time ? machine_id() : 0;
  // Stored last: a pid other than 0 marks the entry as registered.
  own.pid = pid;
}

HeartbeatTable::Entry& HeartbeatTable::entry(int local_rank) const {
  return reinterpret_cast<Entry*>(memory_.data() + sizeof(NodeReports))[local_rank];
}

HeartbeatTable::NodeReports& HeartbeatTable::node_reports() const {
  return *reinterpret_cast<NodeReports*>(memory_.data());
}

// encode() limits the size to the capacity of the entry, however many operations are open.
void HeartbeatTable::publish(const RankSnapshot& snapshot) {
  Entry& own = entry(local_rank_);
  own.snapshot.write(encode(snapshot));
  own.heartbeat.fetch_add(1, std::memory_order_relaxed);
}

void HeartbeatTable::leave() { entry(local_rank_).has_left = true; }

void HeartbeatTable::mark_hub_shut_down() { entry(local_rank_).has_hub_left = true; }

// Each rank stores the flag in its own entry, so that every entry has one writer.
bool HeartbeatTable::has_hub_left() const {
  for (int local_rank = 0; local_rank < ranks_; ++local_rank)
    if (entry(local_rank).has_hub_left) return true;
  return false;
}

void HeartbeatTable::explain_waits(Time until) {
  node_reports().explained_until.store(until.time_since_epoch().count(), std::memory_order_relaxed);
}

bool HeartbeatTable::are_waits_explained(Time now) const {
  return now.time_since_epoch().count() <
         node_reports().explained_until.load(std::memory_order_relaxed);
}

// The ranks of a node are assumed to have the same steady clock. If the exchange fails, the loop
// checks the claim again, because another rank may have replaced it.
bool HeartbeatTable::claim_report(std::string_view incident, Time now,
                                  std::chrono::nanoseconds period) {
  using std::chrono::milliseconds;
  const std::uint64_t hash = Hash().add(incident).value();
  const auto time =
      static_cast<std::uint32_t>(std::chrono::floor<milliseconds>(now.time_since_epoch()).count());
  std::atomic<std::uint64_t>& slot = node_reports().claims[hash % kClaims];
  std::uint64_t claim = slot.load(std::memory_order_relaxed);
  do {
    const bool is_same = claim != 0 && claim >> 32 == hash >> 32;
    // Negative if another rank has claimed the incident since this rank read its clock.
    const milliseconds age(static_cast<std::int32_t>(time - static_cast<std::uint32_t>(claim)));
    if (is_same && std::chrono::abs(age) < period) return false;
  } while (
      !slot.compare_exchange_weak(claim, (hash >> 32) << 32 | time, std::memory_order_relaxed));
  return true;
}

HeartbeatEntry HeartbeatTable::read(int local_rank) const {
  const Entry& entry = this->entry(local_rank);
  HeartbeatEntry copy;
  copy.pid = entry.pid;
  copy.start_time = entry.start_time;
  copy.machine = entry.machine;
  copy.heartbeat = entry.heartbeat;
  copy.has_left = entry.has_left;
  if (const auto bytes = entry.snapshot.read()) copy.snapshot = decode_snapshot(*bytes);
  return copy;
}

std::uint64_t HeartbeatTable::heartbeat(int local_rank) const {
  return entry(local_rank).heartbeat;
}

}  // namespace horo::observe
