#pragma once

#include <memory>

#include "collectives/mpi/mpi_handles.h"
#include "collectives/mpi/shared_memory_file.h"
#include "collectives/shared_region.h"

namespace horo::collectives {

/// Shared memory of the ranks of one node, set up over MPI. The first rank creates the memory and
/// passes a file descriptor to the others through Unix sockets. The memory never has a name, so a
/// killed rank leaves nothing behind. Each rank claims an equal part (see
/// SharedMemoryFile::claim()), in the order of the ranks on the node.
class MpiSharedRegion : public SharedRegion {
 public:
  /// Collective over `node`. The ranks of `node` must be on one host. Throws SharedMemoryError on
  /// all ranks of `node` if any of them cannot allocate or map the memory.
  static std::unique_ptr<MpiSharedRegion> create(const MpiComm& node, std::size_t bytes,
                                                 const WaitPolicy& policy);

  std::span<std::byte> bytes() override { return file_.bytes(); }

 private:
  explicit MpiSharedRegion(SharedMemoryFile file) : file_(std::move(file)) {}
  SharedMemoryFile file_;
};

}  // namespace horo::collectives
