#include <algorithm>

#include "collectives/device/move_tile.h"
#include "collectives/device/scale.h"

namespace horo::collectives {
namespace {

constexpr std::size_t kTile = TileTable::kTileElements;

/// Tile after tile of one stretch of memory.
template <typename T>
struct Scale {
  T* data;
  std::size_t count;
  MoveTile<T, T> move;

  HORO_KERNEL void operator()(const device::Place& place) const {
    const bool is_aligned = device::is_word_aligned(data);
    for (std::size_t begin = place.block * kTile; begin < count; begin += place.blocks * kTile)
      move(data + begin, data + begin, count - begin, is_aligned, place.thread);
  }
};

}  // namespace

void scale(device::Stream& stream, unsigned blocks, void* data, DataType type, std::size_t count,
           double factor, std::int32_t divisor) {
  const std::size_t tiles = (count + kTile - 1) / kTile;
  visit_type(type, [&]<typename T>(T) {
    device::launch(
        stream,
        {static_cast<unsigned>(std::min<std::size_t>(blocks, tiles)), MoveTile<T, T>::kThreads},
        Scale<T>{static_cast<T*>(data), count, {factor, divisor}});
  });
}

void load_scale(device::Device& device, DataType type) {
  visit_type(type, [&]<typename T>(T) { device::load_kernel<Scale<T>>(device); });
}

}  // namespace horo::collectives
