#pragma once

#include <memory>

#include "collectives/mpi/mpi_handles.h"
#include "collectives/mpi/shared_memory_file.h"
#include "collectives/shared_region.h"

namespace horo::collectives {

/// Shared memory of the ranks of one node, agreed on over MPI. Each claims an equal part, in
/// the order of the node. Its name exists only while the ranks
/// map it, so that nothing stays in /dev/shm when they are killed later.
class PosixSharedRegion : public SharedRegion {
 public:
  /// Collective over `node`, whose ranks can share memory. Throws SharedMemoryError on all of them
  /// if one cannot have the memory.
  static std::unique_ptr<PosixSharedRegion> create(const MpiComm& node, std::size_t bytes,
                                                   const WaitPolicy& policy);

  std::span<std::byte> bytes() override { return file_.bytes(); }

 private:
  explicit PosixSharedRegion(SharedMemoryFile file) : file_(std::move(file)) {}
  SharedMemoryFile file_;
};

}  // namespace horo::collectives
