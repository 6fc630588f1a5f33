#pragma once

#include <memory>

#include "collectives/node_memory/shared_memory_file.h"
#include "collectives/rank_group.h"
#include "collectives/shared_region.h"
#include "horo/base/topology.h"

namespace horo::collectives {

/// Shared memory of the ranks of one node. The first rank of the node creates a SharedMemoryFile
/// and passes its file descriptor to the others through Unix sockets. The file has no name in a
/// file system, so killed ranks leave nothing behind. The file is divided into one part for each
/// rank, in rank order, and each rank claims its part (see SharedMemoryFile::claim()).
class NodeRegion : public SharedRegion {
 public:
  /// Collective over `node`, with equal `bytes`. The ranks of `node` must be on one host. Throws
  /// SharedMemoryError on all ranks of `node` if any of them cannot allocate or map the memory.
  static std::unique_ptr<NodeRegion> create(RankGroup& node, std::size_t bytes);
  /// Does so on each node of a group. Collective over `all`, the ranks of `topology`; `node` is the
  /// node of this rank. Throws SharedMemoryError on all ranks of `all` if any node fails.
  static std::unique_ptr<NodeRegion> create_on_nodes(RankGroup& all, RankGroup& node,
                                                     const Topology& topology, std::size_t bytes);

  std::span<std::byte> bytes() override { return file_.bytes(); }

 private:
  explicit NodeRegion(SharedMemoryFile file) : file_(std::move(file)) {}
  SharedMemoryFile file_;
};

}  // namespace horo::collectives
