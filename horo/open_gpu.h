#pragma once

#include <memory>

#include "horo/context.h"
#include "horo/device/device.h"

namespace horo {

/// Opens the GPU of this rank. The rank with local_rank() k gets GPU k (counted from 0) of the GPUs
/// that are visible to it. If fewer GPUs are visible and sharing is allowed, k is taken modulo the
/// number of GPUs. The GPU becomes the current device of the calling thread. Collective over
/// `context`. Call open_gpu() before the program uses CUDA. Blocks.
///
/// Throws DeviceError on all ranks if no GPU is visible to a rank, or if two ranks would share a
/// GPU. The text lists the ranks and GPUs of that host and the remedy. HORO_GPU_OVERSUBSCRIBE=on
/// allows ranks to share a GPU, for tests. horo then sets the environment variables that NCCL and
/// CUDA need for sharing, unless they are already set.
std::unique_ptr<device::Device> open_gpu(Context& context);

}  // namespace horo
