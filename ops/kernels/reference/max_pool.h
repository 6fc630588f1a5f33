#pragma once

#include "ops/kernels/reference/values.h"
#include "ops/kernels/shapes.h"

namespace horo::ops::reference {

Values max_pool(const PoolShape& shape, const Values& input);
/// The gradient by the input. Of equal values the first of the window wins.
Values max_pool_gradient(const PoolShape& shape, const Values& input,
                         const Values& output_gradient);

}  // namespace horo::ops::reference
