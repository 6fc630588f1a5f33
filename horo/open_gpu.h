#pragma once

#include <memory>

#include "horo/context.h"
#include "horo/device/device.h"

namespace horo {

/// Opens the GPU of this rank: the rank with local_rank() k gets the k-th GPU that it sees. The GPU
/// becomes the current device of the calling thread. Collective over `context`. Call it before the
/// program uses CUDA.
///
/// Throws DeviceError on all ranks if a rank sees no GPU, or if two ranks would share one. The text
/// lists the ranks and GPUs of that host and the remedy. HORO_GPU_OVERSUBSCRIBE=on allows ranks to
/// share a GPU, for tests. horo then sets the environment variables that NCCL and CUDA need for
/// sharing, unless they are set already.
std::unique_ptr<device::Device> open_gpu(Context& context);

}  // namespace horo
