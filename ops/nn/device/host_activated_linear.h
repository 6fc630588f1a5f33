#pragma once

#include <memory>

#include "ops/nn/device/device_math.h"

// Private to ops/nn/device.

namespace horo::ops {

/// DeviceMath::activated_linear() with the CPU's kernels. Has none, as cuBLASLt, for a GELU of a
/// number of values that 8 does not divide; and none for a batch of one, so that layers are tested
/// without.
std::unique_ptr<ActivatedOperation> make_host_activated_linear(device::Stream& stream,
                                                               const ActivatedShape& shape,
                                                               DataType type);

}  // namespace horo::ops
