#pragma once

#include <cstddef>
#include <memory>

#include "horo/context.h"
#include "horo/device/device.h"

namespace horo {

/// Opens the GPU of this rank. The rank with local_rank() k gets GPU k (counted from 0) of the GPUs
/// that are visible to it. If fewer GPUs are visible, k is taken modulo their number. The GPU
/// becomes the current device of the calling thread. Collective over `context`. Blocks.
///
/// Throws DeviceError on all ranks if no GPU is visible to a rank, or if two ranks would share a
/// GPU. The text has the ranks, the host and the remedy.
///
/// HORO_GPU_OVERSUBSCRIBE=on allows ranks to share a GPU, for tests. open_gpu() then sets the
/// environment variables that CUDA and NCCL need for sharing, unless they are already set. With
/// this setting, call open_gpu() before the program uses CUDA and while no other thread reads the
/// environment.
std::shared_ptr<device::Device> open_gpu(Context& context);

/// Allocates memory of `device` for gradients that a GradientSync reduces in place, such as one
/// block for all gradients of a model. NCCL 2.27 and later reduces such memory without copies. It
/// is fastest if the blocks of all ranks have equal sizes and their gradients equal offsets. The
/// address is a multiple of 256 bytes. If NCCL cannot allocate it, or if `device` is not a GPU, the
/// result is the same as that of Device::allocate(). Not collective. Thread-safe. Throws
/// DeviceError like Device::allocate().
device::Memory allocate_for_exchange(device::Device& device, std::size_t bytes);

}  // namespace horo
