#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "horo/base/compression.h"
#include "horo/base/reduce_op.h"
#include "horo/base/tensor_view.h"

namespace horo::coordinator {

/// Throws InvalidArgument, naming the option and what it may be, if `compression` cannot be used
/// for these gradients with this operation and wire type.
void check_compression(const Compression& compression, ReduceOp op, std::optional<DataType> wire,
                       std::span<const NamedTensor> gradients);

/// "compression.kind = powersgd", "compression.rank = 4", ...: the options that matter to its kind,
/// for comparisons between ranks and with saved states.
std::vector<std::string> describe_compression(const Compression& compression);

}  // namespace horo::coordinator
