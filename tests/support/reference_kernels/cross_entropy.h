#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/reference_kernels/values.h"

namespace horo::ops::reference {

/// Sum of -log softmax(logits)[label] over the samples, divided by `normaliser`. `logits` is
/// [labels.size(), classes]. Evaluates the definition directly, so large logits overflow.
double cross_entropy(const Values& logits, const std::vector<std::int32_t>& labels,
                     std::size_t classes, double normaliser);
/// The gradient with respect to the logits.
Values cross_entropy_gradient(const Values& logits, const std::vector<std::int32_t>& labels,
                              std::size_t classes, double normaliser);

}  // namespace horo::ops::reference
