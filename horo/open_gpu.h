#pragma once

#include <memory>

#include "horo/base/device/device.h"
#include "horo/context.h"

namespace horo {

/// The GPU of this rank: rank k of a node has the k-th that it sees. It becomes the calling
/// thread's current device. Collective over `context`; before the program itself uses CUDA. Throws
/// DeviceError, on all ranks, if a rank sees none, or where two would share one: with the ranks
/// and GPUs of that host, and the remedy. HORO_GPU_OVERSUBSCRIBE=on lets them share, for tests;
/// NCCL and CUDA are then told so in environment variables, as far as the program's environment
/// does not set them.
std::unique_ptr<device::Device> open_gpu(Context& context);

}  // namespace horo
