#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "horo/horo.h"
#include "ops/nn/layer.h"
#include "ops/optim/optimizer.h"

namespace horo::ops {

/// Broadcasts the parameters and buffers of `model` and the states and counters of `optimizer` from
/// rank 0, as one group. The learning rate is not broadcast. Collective; blocks. Throws
/// MismatchError on every rank, with the name of the tensor, if the models or optimizers of the
/// ranks differ, and InvalidArgument if two parameters or buffers have the same name.
void broadcast_state(Context& context, Layer& model, Optimizer& optimizer);

/// Averages the buffers of the model over the ranks: running statistics differ, since every rank
/// has its own batches, and evaluation needs one model. Collective, one group; blocks.
void average_buffers(Context& context, Layer& model);

/// 64-bit hash of the names, shapes and value bits of the parameters. Models that differ in one bit
/// have different hashes with probability 1 - 2^-64.
std::uint64_t hash_parameters(std::span<Parameter* const> parameters);

/// Compares the hash between the ranks and returns it as 16 hexadecimal digits. Collective. Throws
/// Error on every rank, with the ranks that differ from rank 0, if the hashes are not equal.
std::string agreed_parameter_hash(Context& context, std::span<Parameter* const> parameters);

}  // namespace horo::ops
