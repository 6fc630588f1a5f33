#pragma once

#include <span>

#include "horo/horo.h"
#include "ops/tensor/tensor.h"

namespace horo::ops {

/// Moves the tensors, with their values, into one arena (Context::allocate), which they keep alive.
/// Collective. Where a node has too little shared memory, rank 0 says so in its log and the tensors
/// stay where they are; so they do where every node has one rank.
void move_to_arena(Context& context, std::span<Tensor* const> tensors);

}  // namespace horo::ops
