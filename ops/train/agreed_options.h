#pragma once

#include <span>
#include <string>

#include "horo/horo.h"

namespace horo::ops {

/// Compares what the ranks were asked for. `options`: "epochs = 3", ..., as many on every rank and
/// in the same order. Collective. Throws MismatchError, with the same text on every rank, that
/// names the first option that differs from rank 0's, the rank, and both values.
void require_same_options(Context& context, std::span<const std::string> options);

}  // namespace horo::ops
