#include <mpi.h>

#include "collectives/device/choose_gpu.h"
#include "collectives/mpi/mpi_transport.h"
#include "collectives/nccl/nccl_collectives.h"
#include "horo/base/device/gpu.h"
#include "horo/base/environment.h"
#include "tests/collectives/device/device_ranks.h"

namespace horo::collectives::contract {

void run_device_group(std::uint64_t, const std::function<void(DeviceRank&)>& function) {
  MpiTransport transport(MPI_COMM_WORLD, {.timeout = std::chrono::minutes(1)}, 0);
  const Topology& topology = transport.topology();
  const auto peers = transport.make_point_to_point();
  RingCollectives control(*peers, 4096);
  const bool may_share = parse_environment(process_environment()).settings.gpu_oversubscribe;
  const int gpu = choose_gpu(control, topology, device::gpu_addresses, may_share);
  const auto device = device::open_gpu(gpu);
  NcclCollectives nccl(control, topology.rank, topology.size, "test", transport.wait_policy());
  DeviceRank own{topology.rank, topology.size, *device, nccl};
  function(own);
}

}  // namespace horo::collectives::contract
