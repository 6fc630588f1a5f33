#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "horo/observe/rank_snapshot.h"

namespace horo::observe {

/// What a rank has written on the board.
struct Pulse {
  std::int64_t pid = 0;  ///< 0: it has not been here yet
  std::uint64_t start_time = 0;
  std::uint64_t machine = 0;    ///< where `pid` counts: see this_machine()
  std::uint64_t heartbeat = 0;  ///< how often it has published
  bool has_left = false;
  /// None if it was stopped while it wrote.
  std::optional<RankSnapshot> snapshot;
};

/// Memory of a node in which each rank writes down what it is doing, for the others to read
/// whatever has become of it. Each rank writes its own place, by one thread; anyone reads.
class PulseBoard {
 public:
  static std::size_t bytes_for(int ranks);
  /// `memory`: bytes_for(ranks), aligned to a cache line, the same on all ranks of the node, zero
  /// at first. It outlives this.
  PulseBoard(std::span<std::byte> memory, int local_rank, int ranks);

  /// Replaces what this rank has written and advances its heartbeat. Some microseconds; waits for
  /// nobody.
  void publish(const RankSnapshot& snapshot);
  /// Says that this rank goes in good order: publish() is not called any more.
  void leave();
  /// Says for the whole node that rank 0 has left in good order.
  void note_that_hub_has_left();
  /// Whether any rank of the node has said so.
  bool has_hub_left() const;
  Pulse read(int local_rank) const;
  /// Pulse::heartbeat alone.
  std::uint64_t heartbeat(int local_rank) const;

  int ranks() const { return ranks_; }
  int local_rank() const { return local_rank_; }

 private:
  struct Place;
  Place& place(int local_rank) const;

  std::span<std::byte> memory_;
  int local_rank_;
  int ranks_;
};

}  // namespace horo::observe
