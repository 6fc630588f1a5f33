#pragma once

#include "tests/support/reference_kernels/values.h"

namespace horo::ops::reference {

/// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), for each value.
Values gelu(const Values& x);
/// The derivative times `output_gradient`, for each value.
Values gelu_gradient(const Values& x, const Values& output_gradient);

}  // namespace horo::ops::reference
