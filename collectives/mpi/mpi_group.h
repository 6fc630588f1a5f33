#pragma once

#include "collectives/mpi/mpi_handles.h"
#include "collectives/rank_group.h"

namespace horo::collectives {

/// The ranks of an MPI communicator. Only the calling thread uses MPI, so any thread level of MPI
/// is enough.
class MpiGroup : public RankGroup {
 public:
  /// Refers to `policy`, which must outlive the group.
  MpiGroup(MpiComm comm, const WaitPolicy& policy) : comm_(std::move(comm)), policy_(policy) {}

  const MpiComm& comm() const { return comm_; }
  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  std::vector<std::byte> gather(std::span<const std::byte> own, std::string_view what) override;

 private:
  MpiComm comm_;
  const WaitPolicy& policy_;
};

}  // namespace horo::collectives
