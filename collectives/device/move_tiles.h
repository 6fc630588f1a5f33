#pragma once

#include <cstddef>
#include <cstdint>

#include "horo/base/data_type.h"
#include "horo/device/device.h"

namespace horo::collectives {

/// The positions of tensors in a fused buffer, as a kernel argument. Kernels receive the table by
/// value. A launch therefore needs no preceding copy to the device, and the caller may destroy the
/// table after the launch. A table stays the same for all launches of its FusedLayout. TileMove
/// contains the values that change from launch to launch.
///
/// A tensor is divided into tiles of kTileElements elements; its last tile may be smaller. A block
/// of threads handles one tile at a time. Tiles are numbered consecutively over all tensors of the
/// table, in the order of the buffer.
struct TileTable {
  /// With 1024 tensors, the table has about 20 KiB. CUDA limits kernel arguments to 32,764 bytes.
  static constexpr std::uint32_t kMaxTensors = 1024;
  static constexpr std::uint32_t kTileElements = 8192;
  /// The alignment of a tensor in the buffer, in elements.
  static constexpr std::uint32_t kAlignment = 128;

  struct Tensor {
    void* data;
    std::uint32_t count;   ///< elements
    std::uint32_t offset;  ///< in the buffer, in units of kAlignment elements
  };

  std::uint32_t tensors = 0;
  std::uint32_t first_tile[kMaxTensors + 1] = {};  ///< by tensor; then tiles()
  Tensor tensor[kMaxTensors];

  std::uint32_t tiles() const { return first_tile[tensors]; }
};

/// The arguments of one launch with a table. The launch copies the tiles [first, last) of the table
/// to or from `buffer`.
struct TileMove {
  void* buffer;
  std::uint32_t first, last;
  double scale = 1;          ///< the factor of floating-point values
  std::int32_t divisor = 1;  ///< the divisor of integers in unpack()
};

/// Whether tensors of `type` can be sent as `wire`. Every type can be sent as itself, and float32
/// also as float16 or bfloat16.
bool can_travel_as(DataType type, DataType wire);

/// Copies the tiles of `move` from the tensors of `table` to the buffer. The tensors have `type`,
/// and the buffer has `wire`. Multiplies floating-point values by move.scale. Enqueues one launch
/// of at most `blocks` blocks and does not wait for it. Cost: each element is read and written
/// once.
void pack(device::Stream& stream, unsigned blocks, const TileTable& table, const TileMove& move,
          DataType type, DataType wire);
/// Copies the tiles of `move` from the buffer back to the tensors. Multiplies floating-point values
/// by move.scale. Divides integers by move.divisor, rounding toward zero.
void unpack(device::Stream& stream, unsigned blocks, const TileTable& table, const TileMove& move,
            DataType type, DataType wire);

/// Loads the kernels of pack() and unpack() for these types; see device::load_kernel().
void load_movers(device::Device& device, DataType type, DataType wire);

/// Changes `count` values in place. Multiplies floating-point values by `factor`, or divides
/// integers by `divisor`, rounding toward zero. The result has the same bits as that of unpack()
/// with equal types and the same arguments. Enqueues one launch of at most `blocks` blocks and does
/// not wait for it. Cost: each element is read and written once.
void scale(device::Stream& stream, unsigned blocks, void* data, DataType type, std::size_t count,
           double factor, std::int32_t divisor);

/// Loads the kernel of scale() for this type; see device::load_kernel().
void load_scale(device::Device& device, DataType type);

}  // namespace horo::collectives
