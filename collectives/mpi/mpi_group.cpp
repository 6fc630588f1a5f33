#include "collectives/mpi/mpi_group.h"

namespace horo::collectives {

std::vector<std::byte> MpiGroup::gather(std::span<const std::byte> own, std::string_view what) {
  const MpiBuffer<std::vector<std::byte>> sent({own.begin(), own.end()});
  const MpiBuffer<std::vector<std::byte>> all(
      std::vector<std::byte>(own.size() * static_cast<std::size_t>(size())));
  const int count = static_cast<int>(own.size());
  MPI_Request request = MPI_REQUEST_NULL;
  HORO_MPI(MPI_Iallgather(sent->data(), count, MPI_BYTE, all->data(), count, MPI_BYTE, comm_.get(),
                          &request));
  wait_for_mpi(request, policy_, what);
  return std::move(*all);
}

}  // namespace horo::collectives
