#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace horo::ops {

/// A named layer of a network, either a Layer or a DeviceLayer.
template <typename AnyLayer>
struct Stage {
  std::string name;
  std::uint64_t name_hash;  ///< part of the seeds of its passes
  std::unique_ptr<AnyLayer> layer;
  /// The layer replaces several stages, of which `name` is the first. It sets their seeds and names
  /// them in its errors.
  bool is_group = false;
};

}  // namespace horo::ops
