#pragma once

#include <span>

#include "horo/context.h"

namespace horo {

/// See Context::check_equal().
void check_equal(Runtime& runtime, std::span<const NamedTensor> tensors,
                 const CheckEqualOptions& options);

}  // namespace horo
