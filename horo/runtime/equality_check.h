#pragma once

#include <span>

#include "horo/base/operation_options.h"
#include "horo/base/tensor_view.h"

namespace horo {

class Runtime;

/// See Context::check_equal().
void check_equal(Runtime& runtime, std::span<const NamedTensor> tensors,
                 const CheckEqualOptions& options);

}  // namespace horo
