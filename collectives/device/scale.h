#pragma once

#include <cstddef>
#include <cstdint>

#include "horo/base/data_type.h"
#include "horo/base/device/device.h"

namespace horo::collectives {

/// Multiplies `count` floating point values in place by `factor`, or divides integers by `divisor`,
/// rounding toward zero: with the bits that unpack() leaves. One launch of at most `blocks` blocks;
/// does not block. Cost: every element is read and written once.
void scale(device::Stream& stream, unsigned blocks, void* data, DataType type, std::size_t count,
           double factor, std::int32_t divisor);

/// Loads the kernel of scale() for this type; see device::load_kernel().
void load_scale(device::Device& device, DataType type);

}  // namespace horo::collectives
