#pragma once

#include "horo/horo.h"
#include "ops/nn/layer.h"
#include "ops/optim/optimizer.h"

namespace horo::ops {

/// Gives every rank what rank 0 holds: the parameters and buffers of `model` and the states and
/// counters of `optimizer`, as one operation and in one collective. Collective; blocks. The
/// learning rate stays each rank's own. Throws MismatchError, on every rank, that names the tensor
/// if the ranks' models or optimizers differ; InvalidArgument if two parameters or buffers have one
/// name.
void broadcast_state(Context& context, Layer& model, Optimizer& optimizer);

}  // namespace horo::ops
