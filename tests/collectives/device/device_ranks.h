#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "collectives/device/host_device_collectives.h"
#include "collectives/ring/ring_collectives.h"
#include "horo/device/host/host_device.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives::contract {

/// One rank of a job with one device per rank, and its collectives.
struct DeviceRank {
  int rank, size;
  device::Device& device;
  DeviceCollectives& collectives;
  /// Connects the ranks in host memory while the test runs. Null where only `collectives` may use
  /// the connection.
  Collectives* control = nullptr;
};

/// Runs function(rank) on the ranks that the test program provides. host_group.cpp runs groups of 1
/// to 7 threads in turn, each with a host device whose streams are delayed at random if `seed` is
/// not 0. nccl_group.cpp runs it once, on GPUs, in the job that mpirun started.
void run_device_group(std::uint64_t seed, const std::function<void(DeviceRank&)>& function);

/// The same, and then with HierarchicalDeviceCollectives on emulated nodes: even and uneven nodes
/// of threads, or one node per rank of the job that mpirun started.
void run_device_groups(std::uint64_t seed, const std::function<void(DeviceRank&)>& function);

/// Whether the collectives of these groups reduce elements of this type. NCCL does not have all
/// types.
bool can_reduce(DataType type);

/// Runs function(rank) on `ranks` threads with host devices.
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
