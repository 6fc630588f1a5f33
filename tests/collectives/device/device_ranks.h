#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "collectives/device/host_device_collectives.h"
#include "collectives/ring/ring_collectives.h"
#include "horo/base/device/host_device.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives::contract {

/// One rank of a job whose ranks have a device each, and its collectives.
struct DeviceRank {
  int rank, size;
  device::Device& device;
  DeviceCollectives& collectives;
};

/// Runs function(rank) on the ranks that the program of tests has: in turn in groups of 1 to 7
/// threads, each with a stand-in whose streams are delayed at random if `seed` is not 0; or with
/// nccl_group.cpp once, in the job that mpirun has started, on GPUs.
void run_device_group(std::uint64_t seed, const std::function<void(DeviceRank&)>& function);

/// The same, and after it with HierarchicalDeviceCollectives on pretended nodes: of threads, even
/// and uneven ones; of the job that mpirun has started, a node for each rank.
void run_device_groups(std::uint64_t seed, const std::function<void(DeviceRank&)>& function);

/// Runs function(rank) on `ranks` threads with stand-ins.
inline void run_device_ranks(int ranks, std::uint64_t seed,
                             const std::function<void(DeviceRank&)>& function,
                             std::chrono::nanoseconds timeout = std::chrono::minutes(5)) {
  InProcessJob::Options options;
  options.wait.timeout = timeout;
  run_thread_ranks(ranks, options, [&](Transport& transport, int rank) {
    const auto peers = transport.make_point_to_point();
    RingCollectives ring(*peers, 4096);
    device::HostDevice device({.max_delay = std::chrono::microseconds(seed == 0 ? 0 : 100),
                               .seed = seed * 100 + static_cast<std::uint64_t>(rank)});
    HostDeviceCollectives collectives(
        ring, rank, ranks, [&](const std::string& reason) { transport.abort(reason.c_str()); });
    DeviceRank own{rank, ranks, device, collectives};
    function(own);
  });
}

}  // namespace horo::collectives::contract
