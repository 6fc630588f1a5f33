#include <algorithm>

#include "collectives/device/move_tiles.h"
#include "collectives/device/move_tiles_kernel.h"

namespace horo::collectives {
namespace {

template <Way way>
struct Mover {
  device::Stream& stream;
  unsigned blocks;
  const TileTable& table;
  const TileMove& move;

  template <typename X, typename W>
  void run() const {
    using Kernel = MoveTiles<X, W, way>;
    device::launch(stream, {std::min(blocks, move.last - move.first), Kernel::kThreads},
                   Kernel{move}, table);
  }
  void run(DataType type, DataType wire) const {
    if (type == DataType::kFloat32 && wire == DataType::kFloat16) return run<float, Float16>();
    if (type == DataType::kFloat32 && wire == DataType::kBFloat16) return run<float, BFloat16>();
    visit_type(type, [&]<typename T>(T) { run<T, T>(); });
  }
};

}  // namespace

bool can_travel_as(DataType type, DataType wire) {
  return type == wire || (type == DataType::kFloat32 &&
                          (wire == DataType::kFloat16 || wire == DataType::kBFloat16));
}

void pack(device::Stream& stream, unsigned blocks, const TileTable& table, const TileMove& move,
          DataType type, DataType wire) {
  Mover<Way::kIntoBuffer>{stream, blocks, table, move}.run(type, wire);
}

void unpack(device::Stream& stream, unsigned blocks, const TileTable& table, const TileMove& move,
            DataType type, DataType wire) {
  Mover<Way::kOutOfBuffer>{stream, blocks, table, move}.run(type, wire);
}

}  // namespace horo::collectives
