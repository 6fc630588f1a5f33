#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collectives/collectives.h"
#include "horo/base/tensor_view.h"
#include "horo/base/topology.h"
#include "horo/coordinator/arena_table.h"

namespace horo::coordinator {

/// Which gradients of a plan lie in arenas, and where.
struct MappedGradients {
  /// addresses[i][r]: where this process sees gradient i of rank r of its node; null if it has no
  /// elements. Empty unless gradient i lies in an arena on every rank of the job.
  std::vector<std::vector<std::byte*>> addresses;
  /// Keeps the addresses valid.
  std::vector<std::shared_ptr<collectives::NodeBlock>> blocks;
};

/// Tells the ranks where the gradients lie on each of them. Collective; all ranks have the same
/// gradients and find the same ones mapped.
MappedGradients find_mapped_gradients(std::span<const NamedTensor> gradients,
                                      const ArenaTable& arenas,
                                      collectives::Collectives& collectives,
                                      const Topology& topology);

}  // namespace horo::coordinator
