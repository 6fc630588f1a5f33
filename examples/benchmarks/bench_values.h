#pragma once

#include <cstddef>
#include <string>

#include "horo/base/reduce_op.h"
#include "horo/base/tensor_view.h"

namespace horo::bench {

/// Values for reductions: small whole numbers (1 and 2 for products) that differ by rank and index,
/// so that every type of horo holds any result of up to twelve ranks exactly.
void fill_values(const TensorView& view, int rank, ReduceOp op);
/// Throws Error, naming `what`, unless `view` holds the reduction of fill_values() over `ranks`;
/// averages of floats may be off by a rounding. `offset`: index of the view's first element in
/// what was filled.
void check_values(const TensorView& view, std::size_t offset, int ranks, ReduceOp op,
                  const std::string& what);

/// Bytes for collectives that only move them: they differ by rank and index. `offset`: of the
/// view's first byte in the rank's bytes.
void fill_bytes(const TensorView& view, int rank, std::size_t offset);
/// Throws Error unless [begin, begin + count) of the view are those bytes of `rank` from `offset`
/// on.
void check_bytes(const TensorView& view, std::size_t begin, std::size_t count, int rank,
                 std::size_t offset, const std::string& what);

void fill_zeros(const TensorView& view);

}  // namespace horo::bench
