#pragma once

#include <cstddef>

#include "tests/support/reference_kernels/values.h"

namespace horo::ops::reference {

/// (x - mean) / sqrt(variance + epsilon) * gamma + beta for each row of `x` [rows, gamma.size()].
Values layer_norm(const Values& x, const Values& gamma, const Values& beta, double epsilon);

struct LayerNormGradients {
  Values x, gamma, beta;
};
LayerNormGradients layer_norm_gradients(const Values& x, const Values& gamma,
                                        const Values& output_gradient, double epsilon);

}  // namespace horo::ops::reference
