#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace horo::ops {

/// A layer of a network, of any kind (Layer, or a device's), under its name.
template <typename AnyLayer>
struct Stage {
  std::string name;
  std::uint64_t name_hash;  ///< goes into the seeds of the layer's passes
  std::unique_ptr<AnyLayer> layer;
  /// It stands for several stages, beginning with `name`: it gives them their seeds and names them
  /// in its errors itself.
  bool is_group = false;
};

}  // namespace horo::ops
