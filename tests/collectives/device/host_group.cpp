#include "tests/collectives/device/device_nodes.h"
#include "tests/collectives/device/device_ranks.h"

namespace horo::collectives::contract {

void run_device_group(std::uint64_t seed, const std::function<void(DeviceRank&)>& function) {
  for (const int ranks : {1, 2, 4, 7}) run_device_ranks(ranks, seed, function);
}

void run_device_groups(std::uint64_t seed, const std::function<void(DeviceRank&)>& function) {
  run_device_group(seed, function);
  // In the last setup, ranks are assigned to nodes cyclically.
  for (const char* nodes : {"aabb", "abc", "aab", "aaabbb", "abbab"})
    run_device_nodes(nodes, seed, function);
}

bool can_reduce(DataType) { return true; }

}  // namespace horo::collectives::contract
