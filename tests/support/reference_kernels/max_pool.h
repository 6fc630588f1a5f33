#pragma once

#include "ops/backend/shapes.h"
#include "tests/support/reference_kernels/values.h"

namespace horo::ops::reference {

Values max_pool(const PoolShape& shape, const Values& input);
/// The gradient with respect to the input. The first of several equal maxima in a window gets the
/// gradient.
Values max_pool_gradient(const PoolShape& shape, const Values& input,
                         const Values& output_gradient);

}  // namespace horo::ops::reference
