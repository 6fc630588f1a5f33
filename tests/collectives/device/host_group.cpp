#include "tests/collectives/device/device_ranks.h"

namespace horo::collectives::contract {

void run_device_group(std::uint64_t seed, const std::function<void(DeviceRank&)>& function) {
  for (const int ranks : {1, 2, 4, 7}) run_device_ranks(ranks, seed, function);
}

}  // namespace horo::collectives::contract
