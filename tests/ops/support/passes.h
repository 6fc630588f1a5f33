#pragma once

#include "ops/nn/layer.h"

namespace horo::ops {

inline const Pass kTraining{.training = true};
inline const Pass kInference{};

}  // namespace horo::ops
