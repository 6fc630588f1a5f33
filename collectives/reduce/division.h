#pragma once

#include <cstddef>

#include "collectives/scattered_buffer.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// What is left of an operation whose division is done separately: kAverage is a sum.
constexpr ReduceOp without_division(ReduceOp op) {
  return op == ReduceOp::kAverage ? ReduceOp::kSum : op;
}

/// The division of kAverage by the number of ranks, in place, as reduce() does it; nothing for
/// other operations.
void divide_if_average(DataType type, ReduceOp op, std::byte* data, std::size_t count, int ranks);
void divide_if_average(const ScatteredBuffer& buffer, ReduceOp op, int ranks);

}  // namespace horo::collectives
