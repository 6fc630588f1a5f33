#include "horo/runtime/device_connection.h"

#include <functional>
#include <span>
#include <utility>

#include "collectives/agreement.h"
#include "collectives/device/hierarchical_device_collectives.h"
#include "collectives/device/host_device_collectives.h"
#include "collectives/nccl/connect_gpus.h"
#include "horo/base/error.h"
#include "horo/device/host/host_device.h"

namespace horo {
namespace {

using collectives::DeviceConnection;
using collectives::HierarchicalDeviceCollectives;

// Returns a function that ends the waits of collectives in host memory.
std::function<void(const std::string&)> cancel(coordinator::PlanWaits& waits) {
  return [&waits](const std::string&) { waits.is_cancelled = true; };
}

/// The arguments of connect_devices().
struct ConnectRequest {
  Runtime& runtime;
  const std::string& name;
  device::Device& device;
  coordinator::PlanWaits& waits;
  collectives::NcclOptions nccl;
};

DeviceConnection connect_all(const ConnectRequest& request, collectives::Collectives& control) {
  const auto& [runtime, name, device, waits, nccl] = request;
  const Topology& topology = runtime.topology();
  if (!device::is_host(device))
    return {nullptr, collectives::connect_gpus(control, topology.rank, topology.size, name,
                                               waits.of_caller, nccl)};
  auto communicator = std::make_unique<collectives::Communicator>(
      runtime.transport(), runtime.settings(), runtime.allreduce(), waits.in_node,
      waits.between_nodes);
  auto collectives = std::make_unique<collectives::HostDeviceCollectives>(
      communicator->collectives(), topology.rank, topology.size, cancel(waits));
  return {std::move(communicator), std::move(collectives)};
}

// Returns the collectives between the devices of this node, or null if this rank is alone on the
// node.
std::unique_ptr<collectives::DeviceCollectives> connect_node(const ConnectRequest& request,
                                                             collectives::Collectives& node) {
  const auto& [runtime, name, device, waits, nccl] = request;
  const Topology& topology = runtime.topology();
  if (topology.local_size == 1) return nullptr;
  if (!device::is_host(device))
    return collectives::connect_gpus(node, topology.local_rank, topology.local_size, name,
                                     waits.of_caller, nccl);
  return std::make_unique<collectives::HostDeviceCollectives>(node, topology.local_rank,
                                                              topology.local_size, cancel(waits));
}

// A failure may concern only one node or one rank, so this function returns its text instead of
// throwing. If it threw, the other ranks would wait for this rank in the next collective of the
// task. The two channels are made first. Making them is collective over the job, so it must not
// depend on the success of a node.
DeviceConnection connect_by_nodes(const ConnectRequest& request) {
  const auto& [runtime, name, device, waits, nccl] = request;
  const Topology& topology = runtime.topology();
  const auto& segment_bytes = runtime.settings().ring_segment_bytes;
  HierarchicalDeviceCollectives::Levels levels;
  levels.node_ring = std::make_unique<collectives::NodeRing>(
      runtime.transport().make_point_to_point(), topology, segment_bytes);
  levels.peers = runtime.transport().make_point_to_point();
  levels.node_ring->set_wait_policy(waits.between_nodes);
  levels.peers->set_wait_policy(waits.between_nodes);
  try {
    levels.node = connect_node(request, levels.node_ring->collectives());
    return {nullptr, std::make_unique<HierarchicalDeviceCollectives>(
                         device, topology, std::move(levels),
                         HierarchicalDeviceCollectives::Options{.segment_bytes = segment_bytes,
                                                                .allreduce = runtime.allreduce()},
                         cancel(waits))};
  } catch (const Error& error) {
    return {nullptr, nullptr, error.what()};
  }
}

}  // namespace

DeviceConnection connect_devices(Runtime& runtime, const std::string& name, device::Device& device,
                                 coordinator::PlanWaits& waits, std::size_t max_ctas,
                                 collectives::Collectives& control) {
  // The owner of the coordinator's rounds runs this function. Its thread may have another current
  // device than the caller of run_task().
  device.make_current();
  if (device::is_host(device)) waits.use_sleep_waits();
  const ConnectRequest request{
      runtime, name, device, waits, {.max_ctas = static_cast<int>(max_ctas)}};
  const bool is_hierarchical =
      runtime.settings().algorithm == Algorithm::kHierarchical && runtime.topology().node_count > 1;
  return is_hierarchical ? connect_by_nodes(request) : connect_all(request, control);
}

}  // namespace horo
