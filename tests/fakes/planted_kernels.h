#pragma once

#include <cstddef>

#include "horo/device/stream.h"

namespace horo::fakes {

/// Launches a kernel that adds `from[i]` to `to[i]` for `count` elements.
void launch_add(device::Stream& stream, float* to, const float* from, std::size_t count);

}  // namespace horo::fakes
