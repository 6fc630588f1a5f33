#pragma once

#include <cstddef>

#include "collectives/shared_memory/node_memory.h"
#include "collectives/shared_memory/store_pace.h"
#include "collectives/shared_memory/store_probe.h"
#include "horo/base/environment.h"

namespace horo::collectives {

/// Decides between plain and streaming stores by probing: before the first collective, again after
/// every kBytesBetweenProbes, since virtual machines and schedulers move ranks between cores, and
/// when a rank sees plain stores become far slower. All ranks probe alike, because they count the
/// same bytes and tell each other of doubts; and see the same figures.
class StoreChooser {
 public:
  static constexpr std::size_t kBytesBetweenProbes = std::size_t{512} << 20;
  /// After a probe no doubt is raised before; twice as long after each that was not confirmed.
  static constexpr std::size_t kBytesBeforeDoubt = std::size_t{32} << 20;

  /// kAuto: decide by probing. Otherwise the choice is fixed.
  explicit StoreChooser(Stores setting) : setting_(setting) {}

  /// The stores for a collective of `bytes` that is about to run. Collective when a probe is due.
  Stores choose(NodeMemory& memory, std::size_t bytes);
  /// What the latest probe measured; zeros before the first.
  const StoreBandwidths& bandwidths() const { return bandwidths_; }

  /// A collective that can watch the pace begins.
  void begin_stretches() { pace_.begin(); }
  /// A stretch of it took so long. Returns the stores for the rest: streaming ones, on this rank,
  /// if plain ones have become far slower.
  Stores after_stretch(Stores used, std::size_t bytes, double seconds);
  /// Whether this rank wants a new probe; it tells the others.
  bool doubts() const { return doubts_; }
  /// Some rank wants one: the next choose() does. Called by all ranks in the same collective.
  void probe_next();

 private:
  Stores setting_;
  Stores chosen_ = Stores::kPlain;
  StoreBandwidths bandwidths_;
  std::size_t bytes_until_probe_ = 0;
  StorePace pace_;
  bool doubts_ = false;
  std::size_t bytes_before_doubt_ = kBytesBeforeDoubt;
};

}  // namespace horo::collectives
