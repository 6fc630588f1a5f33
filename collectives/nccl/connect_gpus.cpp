#include "collectives/nccl/connect_gpus.h"

#include "collectives/nccl/nccl_collectives.h"

namespace horo::collectives {

std::unique_ptr<DeviceCollectives> connect_gpus(Collectives& control, int rank, int size,
                                                const std::string& name, const WaitPolicy& policy) {
  return std::make_unique<NcclCollectives>(control, rank, size, name, policy);
}

}  // namespace horo::collectives
