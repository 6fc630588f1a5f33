#pragma once

#include <cstddef>
#include <cstdint>

#include "horo/base/data_type.h"
#include "horo/device/device.h"

namespace horo::collectives {

/// The positions of tensors in a fused buffer, as a kernel argument. The table is passed by value,
/// so no copy to the device precedes the launch and no memory must stay valid for it. Built once
/// per plan; values that change from launch to launch are in TileMove.
///
/// A tensor is divided into tiles of kTileElements elements; its last tile may be smaller. One
/// block handles a tile at a time. Tiles are numbered through all tensors, in the order of the
/// buffer.
struct TileTable {
  /// With 1024 tensors, the table has 20 KiB. CUDA limits kernel arguments to 32,764 bytes.
  static constexpr std::uint32_t kMaxTensors = 1024;
  static constexpr std::uint32_t kTileElements = 8192;
  /// Alignment of a tensor in the buffer, in elements.
  static constexpr std::uint32_t kAlignment = 128;

  struct Tensor {
    void* data;
    std::uint32_t count;   ///< elements
    std::uint32_t offset;  ///< in the buffer, in units of kAlignment elements
  };

  std::uint32_t tensors = 0;
  std::uint32_t first_tile[kMaxTensors + 1] = {};  ///< by tensor; [tensors]: the number of tiles
  Tensor tensor[kMaxTensors];

  std::uint32_t tiles() const { return first_tile[tensors]; }
};

/// The arguments of one launch with a table: copies tiles [first, last) to or from `buffer`.
struct TileMove {
  void* buffer;
  std::uint32_t first, last;
  double scale = 1;          ///< factor of floating point values, in both directions
  std::int32_t divisor = 1;  ///< divisor of integers when they are unpacked
};

/// Whether tensors of `type` can be sent as `wire`: every type as itself, and float32 also as
/// float16 or bfloat16.
bool can_travel_as(DataType type, DataType wire);

/// Copies tiles of the table's tensors, of `type`, to the buffer, as `wire`. Multiplies floating
/// point values by move.scale. One launch of at most `blocks` blocks; does not block. Cost: each
/// element is read and written once.
void pack(device::Stream& stream, unsigned blocks, const TileTable& table, const TileMove& move,
          DataType type, DataType wire);
/// Copies the tiles back to the tensors. Divides integers by move.divisor, rounding toward zero.
void unpack(device::Stream& stream, unsigned blocks, const TileTable& table, const TileMove& move,
            DataType type, DataType wire);

/// Loads the kernels of pack() and unpack() for these types; see device::load_kernel().
void load_movers(device::Device& device, DataType type, DataType wire);

/// Multiplies `count` floating point values in place by `factor`, or divides integers by `divisor`
/// with rounding toward zero. The bits are those that unpack() gives. One launch of at most
/// `blocks` blocks; does not block. Cost: each element is read and written once.
void scale(device::Stream& stream, unsigned blocks, void* data, DataType type, std::size_t count,
           double factor, std::int32_t divisor);

/// Loads the kernel of scale() for this type; see device::load_kernel().
void load_scale(device::Device& device, DataType type);

}  // namespace horo::collectives
