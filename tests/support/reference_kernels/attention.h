#pragma once

#include "ops/backend/shapes.h"
#include "tests/support/reference_kernels/values.h"

namespace horo::ops::reference {

/// Causal self-attention of `qkv` [batch, positions, 3, heads, head_size].
Values attention(const AttentionShape& shape, const Values& qkv);

/// The gradient by `qkv`.
Values attention_gradient(const AttentionShape& shape, const Values& qkv,
                          const Values& output_gradient);

}  // namespace horo::ops::reference
