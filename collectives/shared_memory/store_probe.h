#pragma once

#include <cstddef>

#include "collectives/shared_memory/node_memory.h"
#include "horo/base/environment.h"

namespace horo::collectives {

/// How fast values pass from rank to rank through the slots, in bytes per second.
struct StoreBandwidths {
  double plain = 0;
  double streaming = 0;
};

/// Measures both kinds of stores with the traffic of the pipeline: every rank fills its slot and
/// reads the next rank's, round after round over all slots, so that lines are where they are in
/// use. Returns the slowest rank's figures, the same on every rank. Collective over the group;
/// takes 0.5 to 2 ms.
StoreBandwidths probe_stores(NodeMemory& memory);

/// Decides between plain and streaming stores by probing: before the first collective, and again
/// after every kBytesBetweenProbes, since virtual machines and schedulers move ranks between cores.
/// All ranks decide alike, because they count the same bytes and see the same figures.
class StoreChooser {
 public:
  static constexpr std::size_t kBytesBetweenProbes = std::size_t{512} << 20;

  /// kAuto: decide by probing. Otherwise the choice is fixed.
  explicit StoreChooser(Stores setting) : setting_(setting) {}

  /// The stores for a collective of `bytes` that is about to run. Collective when a probe is due.
  Stores choose(NodeMemory& memory, std::size_t bytes);
  /// What the latest probe measured; zeros before the first.
  const StoreBandwidths& bandwidths() const { return bandwidths_; }

 private:
  Stores setting_;
  Stores chosen_ = Stores::kPlain;
  StoreBandwidths bandwidths_;
  std::size_t bytes_until_probe_ = 0;
};

}  // namespace horo::collectives
