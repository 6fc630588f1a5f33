#include <algorithm>
#include <cstdint>

#include "collectives/device/move_tile.h"
#include "collectives/device/move_tiles.h"
#include "horo/device/launch.h"

namespace horo::collectives {
namespace {

enum class Direction { kIntoBuffer, kOutOfBuffer };

// Copies tiles between the tensors of a table, which have type X, and the buffer, which has type W.
template <typename X, typename W, Direction direction>
struct MoveTiles {
  static constexpr unsigned kThreads = MoveTile<X, W>::kThreads;

  TileMove move;

  HORO_KERNEL void operator()(const device::ThreadIndex& place, const TileTable& table) const {
    for (std::uint32_t tile = move.first + place.block; tile < move.last; tile += place.blocks)
      move_tile(table, tile, place.thread);
  }

 private:
  HORO_KERNEL void move_tile(const TileTable& table, std::uint32_t tile, unsigned thread) const {
    const std::uint32_t t = find_tensor(table, tile);
    const TileTable::Tensor& tensor = table.tensor[t];
    const std::uint32_t begin = (tile - table.first_tile[t]) * TileTable::kTileElements;
    X* own = static_cast<X*>(tensor.data) + begin;
    W* buffer = static_cast<W*>(move.buffer) +
                static_cast<std::size_t>(tensor.offset) * TileTable::kAlignment + begin;
    const bool is_aligned = device::is_vector_aligned(own);
    if constexpr (direction == Direction::kIntoBuffer)
      MoveTile<W, X>{move.scale, 1}(buffer, own, tensor.count - begin, is_aligned, thread);
    else
      MoveTile<X, W>{move.scale, move.divisor}(own, buffer, tensor.count - begin, is_aligned,
                                               thread);
  }
};

constexpr std::size_t kTile = TileTable::kTileElements;

// Scales a contiguous range in place.
template <typename T>
struct Scale {
  T* data;
  std::size_t count;
  MoveTile<T, T> move;

  HORO_KERNEL void operator()(const device::ThreadIndex& place) const {
    const bool is_aligned = device::is_vector_aligned(data);
    for (std::size_t begin = place.block * kTile; begin < count; begin += place.blocks * kTile)
      move(data + begin, data + begin, count - begin, is_aligned, place.thread);
  }
};

// Calls function(x, w) with a value x of `type` and a value w of `wire`. The C++ types of x and w
// select the kernel.
template <typename Function>
void visit_types(DataType type, DataType wire, const Function& function) {
  if (type == DataType::kFloat32 && wire == DataType::kFloat16) return function(0.0f, Float16{});
  if (type == DataType::kFloat32 && wire == DataType::kBFloat16) return function(0.0f, BFloat16{});
  visit_type(type, [&](auto zero) { function(zero, zero); });
}

template <Direction direction>
void move_tiles(device::Stream& stream, unsigned blocks, const TileTable& table,
                const TileMove& move, DataType type, DataType wire) {
  visit_types(type, wire, [&]<typename X, typename W>(X, W) {
    using Kernel = MoveTiles<X, W, direction>;
    device::launch(stream, {std::min(blocks, move.last - move.first), Kernel::kThreads},
                   Kernel{move}, table);
  });
}

}  // namespace

bool can_travel_as(DataType type, DataType wire) {
  return type == wire || (type == DataType::kFloat32 &&
                          (wire == DataType::kFloat16 || wire == DataType::kBFloat16));
}

void pack(device::Stream& stream, unsigned blocks, const TileTable& table, const TileMove& move,
          DataType type, DataType wire) {
  move_tiles<Direction::kIntoBuffer>(stream, blocks, table, move, type, wire);
}

void unpack(device::Stream& stream, unsigned blocks, const TileTable& table, const TileMove& move,
            DataType type, DataType wire) {
  move_tiles<Direction::kOutOfBuffer>(stream, blocks, table, move, type, wire);
}

void load_movers(device::Device& device, DataType type, DataType wire) {
  visit_types(type, wire, [&]<typename X, typename W>(X, W) {
    device::load_kernel<MoveTiles<X, W, Direction::kIntoBuffer>, TileTable>(device);
    device::load_kernel<MoveTiles<X, W, Direction::kOutOfBuffer>, TileTable>(device);
  });
}

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
