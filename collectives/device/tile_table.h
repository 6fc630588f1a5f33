#pragma once

#include <cstddef>
#include <cstdint>

namespace horo::collectives {

/// Which tensors lie where in a fused buffer, as kernels take it: by value, in the arguments of the
/// launch, so that nothing is copied to the device first and nothing has to be kept for it. Made
/// once for a plan: what differs from launch to launch is in TileMove.
///
/// A tensor is moved in tiles of kTileElements elements, the last one of which may be smaller, and
/// a tile by one block; tiles are numbered through all tensors, in the order of the buffer.
struct TileTable {
  static constexpr std::uint32_t kMaxTensors = 1024;
  static constexpr std::uint32_t kTileElements = 8192;
  /// Of a tensor's place in the buffer, in elements.
  static constexpr std::uint32_t kAlignment = 128;

  struct Tensor {
    void* data;
    std::uint32_t count;   ///< elements
    std::uint32_t offset;  ///< in the buffer, in units of kAlignment elements
  };

  std::uint32_t tensors = 0;
  std::uint32_t first_tile[kMaxTensors + 1] = {};  ///< [tensors]: how many tiles there are
  Tensor tensor[kMaxTensors];

  std::uint32_t tiles() const { return first_tile[tensors]; }
};

/// What a launch does with a table: moves tiles [first, last) to or from `buffer`.
struct TileMove {
  void* buffer;
  std::uint32_t first, last;
  double scale = 1;          ///< of floating point values, on either way
  std::int32_t divisor = 1;  ///< of integers on their way back
};

}  // namespace horo::collectives
