#pragma once

#include <cstddef>

#include "collectives/shared_memory/node_memory.h"
namespace horo::collectives {

/// How fast values pass from rank to rank through the slots, in bytes per second.
struct StoreBandwidths {
  double plain = 0;
  double streaming = 0;
};

/// Measures both kinds of stores with the traffic of the pipeline: every rank fills its slot and
/// reads the next rank's, round after round over all slots, so that lines are where they are in
/// use. Returns the slowest rank's figures, the same on every rank. Collective over the group;
/// takes 1 to 5 ms.
StoreBandwidths probe_stores(NodeMemory& memory);

}  // namespace horo::collectives
