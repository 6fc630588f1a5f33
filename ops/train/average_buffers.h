#pragma once

#include "horo/horo.h"
#include "ops/nn/layer.h"

namespace horo::ops {

/// Averages the model's buffers over the ranks: statistics of the ranks' own batches drift apart,
/// evaluation needs one model. Collective, one group; blocks.
void average_buffers(Context& context, Layer& model);

}  // namespace horo::ops
