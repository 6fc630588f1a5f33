#pragma once

#include <cstdint>

#include "collectives/device/tile_table.h"
#include "horo/base/data_type.h"
#include "horo/base/device/device.h"

namespace horo::collectives {

/// Whether tensors of `type` may travel as `wire`: as themselves, and float32 as float16 or
/// bfloat16.
bool can_travel_as(DataType type, DataType wire);

/// Copies tiles [first, last) of the table's tensors, of `type`, into its buffer, as `wire`:
/// floating point values times table.scale. One launch of at most `blocks` blocks; does not block.
/// Cost: every element is read and written once.
void pack(device::Stream& stream, unsigned blocks, const TileTable& table, DataType type,
          DataType wire, std::uint32_t first, std::uint32_t last);
/// The same back; integers are divided by table.divisor, rounding toward zero.
void unpack(device::Stream& stream, unsigned blocks, const TileTable& table, DataType type,
            DataType wire, std::uint32_t first, std::uint32_t last);

}  // namespace horo::collectives
