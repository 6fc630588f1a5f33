#include <algorithm>

#include "collectives/device/move_tiles.h"
#include "collectives/device/move_tiles_kernel.h"

namespace horo::collectives {
namespace {

// Calls function with an element of `type` and one of `wire`.
template <typename Function>
void visit_types(DataType type, DataType wire, const Function& function) {
  if (type == DataType::kFloat32 && wire == DataType::kFloat16) return function(0.0f, Float16{});
  if (type == DataType::kFloat32 && wire == DataType::kBFloat16) return function(0.0f, BFloat16{});
  visit_type(type, [&](auto zero) { function(zero, zero); });
}

template <Way way>
void move_tiles(device::Stream& stream, unsigned blocks, const TileTable& table,
                const TileMove& move, DataType type, DataType wire) {
  visit_types(type, wire, [&]<typename X, typename W>(X, W) {
    using Kernel = MoveTiles<X, W, way>;
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
  move_tiles<Way::kIntoBuffer>(stream, blocks, table, move, type, wire);
}

void unpack(device::Stream& stream, unsigned blocks, const TileTable& table, const TileMove& move,
            DataType type, DataType wire) {
  move_tiles<Way::kOutOfBuffer>(stream, blocks, table, move, type, wire);
}

void load_movers(device::Device& device, DataType type, DataType wire) {
  visit_types(type, wire, [&]<typename X, typename W>(X, W) {
    device::load_kernel<MoveTiles<X, W, Way::kIntoBuffer>, TileTable>(device);
    device::load_kernel<MoveTiles<X, W, Way::kOutOfBuffer>, TileTable>(device);
  });
}

}  // namespace horo::collectives
