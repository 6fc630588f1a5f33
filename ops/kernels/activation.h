#pragma once

#include <cstddef>

#include "ops/kernels/shapes.h"

namespace horo::ops {

enum class Activation {
  kRelu,
  kGelu,  ///< the one with tanh
};

/// A fully connected stage with an activation behind it, and perhaps another such stage behind
/// that.
struct ActivatedShape {
  InnerProductShape linear;  ///< with a bias
  Activation activation = Activation::kRelu;
  std::size_t next_out_features = 0;  ///< of the stage behind; 0: there is none
};

}  // namespace horo::ops
