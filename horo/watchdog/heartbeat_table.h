#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {

/// Bytes in shared memory. One writer replaces them as a whole, and any process that maps the
/// memory reads them. Uses a sequence lock (Lameter, "Effective synchronization on Linux/NUMA
/// systems", 2005): the writer never waits, and a reader repeats its copy if a write has changed
/// the sequence meanwhile. Zero-initialised memory is a valid empty object.
template <std::size_t kCapacity>
class SeqlockBytes {
 public:
  /// Replaces the bytes. Requires at most kCapacity bytes. Called by one thread at a time.
  void write(std::span<const std::byte> bytes) {
    const std::uint64_t sequence = sequence_.load(std::memory_order_relaxed);
    sequence_.store(sequence + 1, std::memory_order_relaxed);
    // Release: a reader that sees one of these stores also sees the odd sequence stored above, or a
    // later sequence.
    length_.store(bytes.size(), std::memory_order_release);
    for (std::size_t i = 0; i * sizeof(Cell) < bytes.size(); ++i) {
      Cell cell = 0;
      const std::size_t at = i * sizeof(Cell);
      std::memcpy(&cell, bytes.data() + at, std::min(sizeof cell, bytes.size() - at));
      cells_[i].store(cell, std::memory_order_release);
    }
    sequence_.store(sequence + 2, std::memory_order_release);
  }

  /// Returns the bytes of the last complete write(); empty if there was none. Returns nullopt if a
  /// write interferes with each of 100 attempts, for example because the writer's process was
  /// stopped during a write.
  std::optional<std::vector<std::byte>> read() const {
    for (int attempt = 0; attempt < 100; ++attempt) {
      const std::uint64_t before = sequence_.load(std::memory_order_acquire);
      if (before % 2 != 0) continue;
      std::vector<std::byte> bytes(
          std::min<std::size_t>(length_.load(std::memory_order_acquire), kCapacity));
      for (std::size_t at = 0; at < bytes.size(); at += sizeof(Cell)) {
        const Cell cell = cells_[at / sizeof(Cell)].load(std::memory_order_acquire);
        std::memcpy(bytes.data() + at, &cell, std::min(sizeof cell, bytes.size() - at));
      }
      // Relaxed is enough: the acquire loads above are ordered before this load.
      if (sequence_.load(std::memory_order_relaxed) == before) return bytes;
    }
    return std::nullopt;
  }

 private:
  using Cell = std::uint64_t;
  static_assert(kCapacity % sizeof(Cell) == 0);
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<std::uint64_t> length_{0};
  std::array<std::atomic<Cell>, kCapacity / sizeof(Cell)> cells_{};
};

/// A copy of a rank's entry in a HeartbeatTable.
struct HeartbeatEntry {
  std::int64_t pid = 0;          ///< 0 if the rank has not registered yet
  std::uint64_t start_time = 0;  ///< see process_start_time(); 0 if unknown
  std::uint64_t machine = 0;     ///< the scope in which `pid` is unique; see machine_id()
  std::uint64_t heartbeat = 0;   ///< number of calls of publish()
  bool has_left = false;         ///< whether the rank has called leave()
  /// nullopt if the rank has not published yet, or if SeqlockBytes::read() returns nullopt
  std::optional<RankSnapshot> snapshot;
};

/// Shared memory of a node in which each rank publishes its state. The other ranks can read the
/// state even after the process of the rank has ended. Each rank writes its own entry, from one
/// thread at a time. Any rank reads any entry. The ranks also record in the table what they have
/// logged, so that usually only one rank of the node logs an incident.
class HeartbeatTable {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static std::size_t bytes_for(int ranks);
  /// Registers this rank. `memory` must have at least bytes_for(ranks) bytes, be aligned to a cache
  /// line, be shared by all ranks of the node, be zero before the first rank registers, and outlive
  /// this object.
  HeartbeatTable(std::span<std::byte> memory, int local_rank, int ranks);

  /// Replaces this rank's snapshot and increments its heartbeat. Does not wait for readers.
  void publish(const RankSnapshot& snapshot);
  /// Marks this rank as having left the job. The caller must not call publish() afterwards.
  void leave();
  /// Records for all ranks of the node that rank 0, which has the hub (LeaderHub), has left the
  /// job.
  void mark_hub_shut_down();
  /// Whether any rank of the node has called mark_hub_shut_down().
  bool has_hub_left() const;
  /// Declares that the ranks of the node need not log waits from LongWaits before `until`, for
  /// example because a logged verdict explains them or because a rank is in a pause.
  void explain_waits(Time until);
  bool are_waits_explained(Time now) const;
  /// Claims `incident` for this rank, which then logs it. Returns false if a rank of the node has
  /// claimed `incident` less than `period` before `now`. The claims of all incidents share a few
  /// slots. A claim that replaces the claim of another incident makes the other incident claimable
  /// again.
  bool claim_report(std::string_view incident, Time now, std::chrono::nanoseconds period);
  HeartbeatEntry read(int local_rank) const;
  /// Reads only HeartbeatEntry::heartbeat.
  std::uint64_t heartbeat(int local_rank) const;

  int ranks() const { return ranks_; }
  int local_rank() const { return local_rank_; }

 private:
  struct NodeReports;
  struct Entry;
  NodeReports& node_reports() const;
  Entry& entry(int local_rank) const;

  std::span<std::byte> memory_;
  int local_rank_;
  int ranks_;
};

}  // namespace horo::observe
