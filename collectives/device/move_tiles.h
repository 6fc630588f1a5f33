#pragma once

#include "collectives/device/tile_table.h"
#include "horo/base/data_type.h"
#include "horo/base/device/device.h"

namespace horo::collectives {

/// Whether tensors of `type` may travel as `wire`: as themselves, and float32 as float16 or
/// bfloat16.
bool can_travel_as(DataType type, DataType wire);

/// Copies tiles of the table's tensors, of `type`, into the buffer, as `wire`: floating point
/// values times move.scale. One launch of at most `blocks` blocks; does not block. Cost: every
/// element is read and written once.
void pack(device::Stream& stream, unsigned blocks, const TileTable& table, const TileMove& move,
          DataType type, DataType wire);
/// The same back; integers are divided by move.divisor, rounding toward zero.
void unpack(device::Stream& stream, unsigned blocks, const TileTable& table, const TileMove& move,
            DataType type, DataType wire);

/// Loads the kernels of pack() and unpack() for these types; see device::load_kernel().
void load_movers(device::Device& device, DataType type, DataType wire);

}  // namespace horo::collectives
