#include "collectives/nccl/connect_gpus.h"
#include "horo/base/error.h"

namespace horo::collectives {

std::unique_ptr<DeviceCollectives> connect_gpus(Collectives&, int, int, const std::string&,
                                                const WaitPolicy&, const NcclOptions&) {
  throw DeviceError(
      "this horo was built without CUDA; rebuild it with HORO_WITH_CUDA=ON to connect GPUs");
}

device::Memory allocate_exchange_memory(device::Device& device, std::size_t bytes) {
  return device.allocate(bytes);
}

}  // namespace horo::collectives
