#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/kernels/reference/values.h"

namespace horo::ops::reference {

/// Sum of -log softmax(logits)[label] over the samples, divided by `normaliser`. `logits` is
/// [labels.size(), classes]; computed straight from the definition, so only for moderate logits.
double cross_entropy(const Values& logits, const std::vector<std::int32_t>& labels,
                     std::size_t classes, double normaliser);
/// Its gradient by the logits.
Values cross_entropy_gradient(const Values& logits, const std::vector<std::int32_t>& labels,
                              std::size_t classes, double normaliser);

}  // namespace horo::ops::reference
