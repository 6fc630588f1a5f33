#pragma once

#include "horo/horo.h"
#include "ops/nn/layer.h"

namespace horo::ops {

/// Makes every BatchNorm of `model` use the statistics of the samples of all ranks in training; see
/// BatchNorm::set_sum_over_ranks(). The passes of the model are then collective: every rank runs
/// the same passes. `context` must outlive their use. Each layer exchanges 2 * channels + 1 numbers
/// in a forward and 2 * channels in a backward pass, as operations named after the layer. A
/// captured step cannot contain them.
void synchronise_batch_norm(Layer& model, Context& context);

}  // namespace horo::ops
