#pragma once

#include <span>
#include <string>

#include "horo/horo.h"

namespace horo::ops {

/// Compares options between ranks. `options`: one line per option, such as "epochs = 3", in the
/// same order on every rank. Collective; blocks. Throws MismatchError with the same text on every
/// rank: the first option that differs from rank 0's, the rank, and both values.
void require_same_options(Context& context, std::span<const std::string> options);

}  // namespace horo::ops
