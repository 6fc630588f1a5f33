#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "horo/device/gpu.h"

namespace horo::ops::cuda {

/// The error text for a library that answers a call with NOT_INITIALIZED. The most common reason is
/// a missing GPU.
inline std::string why_not_initialized(std::string_view library, std::string_view call) {
  if (device::count_gpus() == 0)
    return fmt::format(
        "{} needs a GPU with its driver, and this process sees none: nvidia-smi shows those of the "
        "machine ({} failed)",
        library, call);
  return fmt::format("{}'s {} failed: the library could not start on the GPU; is its memory full?",
                     library, call);
}

}  // namespace horo::ops::cuda
