#pragma once

#include <cstddef>
#include <string>

#include "horo/base/reduce_op.h"
#include "horo/base/tensor_view.h"

namespace horo::bench {

/// Values for reductions: small whole numbers (1 and 2 for products) that differ by rank and index,
/// so that every type of horo holds any result of up to twelve ranks exactly.
void fill_values(const TensorView& view, int rank, ReduceOp op);
/// Throws Error with `what` unless `view` has the reduction of fill_values() over `ranks`. Averages
/// of floats may differ by rounding. `offset`: index of the first element of the view in the filled
/// buffer.
void check_values(const TensorView& view, std::size_t offset, int ranks, ReduceOp op,
                  const std::string& what);

/// Fills bytes for collectives that only move data: they differ by rank and index. `offset`: index
/// of the first byte of the view in the bytes of the rank.
void fill_bytes(const TensorView& view, int rank, std::size_t offset);
/// Throws Error unless [begin, begin + count) of the view are those bytes of `rank` from `offset`
/// on.
void check_bytes(const TensorView& view, std::size_t begin, std::size_t count, int rank,
                 std::size_t offset, const std::string& what);

void fill_zeros(const TensorView& view);

}  // namespace horo::bench
