#pragma once

#include <memory>

#include "collectives/mpi/mpi_handles.h"
#include "collectives/mpi/shared_memory_file.h"
#include "collectives/shared_region.h"

namespace horo::collectives {

/// Shared memory of the ranks of one node, set up over MPI. The first rank of the node creates a
/// SharedMemoryFile and passes its file descriptor to the others through Unix sockets. The file has
/// no name in a file system, so killed ranks leave nothing behind. The file is divided into one
/// part for each rank, in rank order, and each rank claims its part (see
/// SharedMemoryFile::claim()).
class MpiSharedRegion : public SharedRegion {
 public:
  /// Collective over `node`, with equal `bytes`. The ranks of `node` must be on one host. Throws
  /// SharedMemoryError on all ranks of `node` if any of them cannot allocate or map the memory.
  static std::unique_ptr<MpiSharedRegion> create(const MpiComm& node, std::size_t bytes,
                                                 const WaitPolicy& policy);

  std::span<std::byte> bytes() override { return file_.bytes(); }

 private:
  explicit MpiSharedRegion(SharedMemoryFile file) : file_(std::move(file)) {}
  SharedMemoryFile file_;
};

}  // namespace horo::collectives
