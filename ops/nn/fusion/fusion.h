#pragma once

#include <memory>
#include <vector>

#include "ops/nn/fusion/stage.h"

namespace horo::ops {

/// The stages of a network, some of them replaced by groups that compute several stages together.
struct FusedStages {
  std::vector<Stage> stages;
  std::vector<std::unique_ptr<Layer>> groups;
};

/// Groups the stages that `backend`, to which their layers belong, computes faster together: Linear
/// layers with ReLU or GELU between or after them, a BatchNorm with a ReLU after it, and
/// consecutive residual blocks. The groups borrow the layers, whose parameters stay where they are.
/// Results differ by rounding at most. A class derived from one of these layers is not grouped.
FusedStages fuse(const std::vector<Stage>& stages, Backend& backend);

}  // namespace horo::ops
