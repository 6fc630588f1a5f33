#pragma once

#include <cstdint>
#include <string>

#include "ops/nn/layer.h"

namespace horo::ops {

/// A named layer of a network.
struct Stage {
  std::string name;
  std::uint64_t name_hash = 0;  ///< part of the seeds of its passes
  Layer* layer = nullptr;       ///< borrowed
  /// The layer computes several stages, of which `name` is the first. It sets their seeds and names
  /// them in its errors.
  bool is_group = false;
};

}  // namespace horo::ops
