#pragma once

#include <memory>

#include "collectives/mpi/mpi_handles.h"
#include "collectives/mpi/shared_memory_file.h"
#include "collectives/shared_region.h"

namespace horo::collectives {

/// Shared memory of the ranks of one node, agreed on over MPI. The first rank makes it and passes
/// it to the others through Unix sockets; it never has a name, so that nothing is left wherever a
/// rank is killed. Each rank claims an equal part, in the order of the node.
class MpiSharedRegion : public SharedRegion {
 public:
  /// Collective over `node`, whose ranks can share memory. Throws SharedMemoryError on all of them
  /// if one cannot have the memory.
  static std::unique_ptr<MpiSharedRegion> create(const MpiComm& node, std::size_t bytes,
                                                 const WaitPolicy& policy);

  std::span<std::byte> bytes() override { return file_.bytes(); }

 private:
  explicit MpiSharedRegion(SharedMemoryFile file) : file_(std::move(file)) {}
  SharedMemoryFile file_;
};

}  // namespace horo::collectives
