#pragma once

#include <cstddef>

#include "collectives/shared_memory/node_memory.h"
#include "horo/base/environment.h"

namespace horo::collectives {

/// Measures how fast lines that one rank has just written reach the next rank (ring of the group's
/// ranks) and returns the slowest pair's bandwidth in bytes per second, the same value on every
/// rank. Collective over the group; takes about 0.1 ms. Uses the slots.
double probe_cache_to_cache_bandwidth(NodeMemory& memory);

/// Decides between plain and streaming stores from probes: at the start, and again after every
/// kBytesBetweenProbes, since virtual machines and schedulers move ranks between cores. All ranks
/// decide alike, because they count the same bytes and see the same measurements.
class StoreChooser {
 public:
  /// Cores that share a cache pass lines on at 10 GB/s and more, cores that do not at about 2.
  static constexpr double kSharedCacheBandwidth = 5e9;
  static constexpr std::size_t kBytesBetweenProbes = std::size_t{512} << 20;

  /// kAuto: decide by probing. Otherwise the choice is fixed.
  explicit StoreChooser(Stores setting) : setting_(setting) {}

  /// The stores for a collective of `bytes` that is about to run. Collective when a probe is due.
  Stores choose(NodeMemory& memory, std::size_t bytes);
  /// What the latest probe measured, bytes per second; 0 before the first.
  double bandwidth() const { return bandwidth_; }

 private:
  Stores setting_;
  Stores chosen_ = Stores::kPlain;
  double bandwidth_ = 0;
  std::size_t bytes_until_probe_ = 0;
};

}  // namespace horo::collectives
