#include <mpi.h>

#include <atomic>
#include <memory>

#include "collectives/device/choose_gpu.h"
#include "collectives/device/hierarchical_device_collectives.h"
#include "collectives/mpi/mpi_transport.h"
#include "collectives/nccl/nccl_collectives.h"
#include "horo/base/environment.h"
#include "horo/device/gpu.h"
#include "tests/collectives/device/device_ranks.h"

namespace horo::collectives::contract {
namespace {

std::unique_ptr<device::Device> open_own_gpu(Collectives& control, const Topology& topology) {
  const bool may_share = parse_environment(process_environment()).settings.gpu_oversubscribe;
  return device::open_gpu(choose_gpu(control, topology, device::gpu_addresses, may_share));
}

}  // namespace

void run_device_group(std::uint64_t, const std::function<void(DeviceRank&)>& function) {
  MpiTransport transport(MPI_COMM_WORLD, {.timeout = std::chrono::minutes(1)}, 0);
  const Topology& topology = transport.topology();
  const auto peers = transport.make_point_to_point();
  RingCollectives control(*peers, 4096);
  const auto device = open_own_gpu(control, topology);
  NcclCollectives nccl(control, topology.rank, topology.size, "test", transport.wait_policy());
  DeviceRank own{topology.rank, topology.size, *device, nccl, &control};
  function(own);
}

void run_device_groups(std::uint64_t seed, const std::function<void(DeviceRank&)>& function) {
  run_device_group(seed, function);
  std::atomic<bool> is_cancelled = false;
  const WaitPolicy policy{.timeout = std::chrono::minutes(1), .cancelled = &is_cancelled};
  std::unique_ptr<device::Device> device;
  {
    MpiTransport transport(MPI_COMM_WORLD, policy, 0);  // the nodes of the GPUs
    const auto peers = transport.make_point_to_point();
    RingCollectives control(*peers, 4096);
    device = open_own_gpu(control, transport.topology());
  }
  MpiTransport transport(MPI_COMM_WORLD, policy, 1);
  HierarchicalDeviceCollectives collectives(
      *device, transport.topology(), {.peers = transport.make_point_to_point()},
      {.slot_bytes = 2000}, [&](const std::string&) { is_cancelled = true; });
  DeviceRank own{collectives.rank(), collectives.size(), *device, collectives};
  function(own);
}

bool can_reduce(DataType type) { return type != DataType::kInt16 && type != DataType::kUInt16; }

}  // namespace horo::collectives::contract
