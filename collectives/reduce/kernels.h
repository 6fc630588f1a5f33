#pragma once

#include <cstddef>
#include <span>

#include "collectives/buffers.h"
#include "horo/base/data_type.h"
#include "horo/base/environment.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// out[i] = sources[0][i] op sources[1][i] op ... for i in [0, count). Each element is combined in
/// the order of `sources`, so the result does not depend on how a buffer is split. 16-bit floats
/// are combined in float32, and each result is rounded once. Integer sums and products wrap. `op`
/// must not be kAdasum.
///
/// kAverage divides the sum by `divisor`, which must be at least 1. Floats are multiplied by
/// 1/divisor in the type of the accumulator. Integers are divided and rounded toward zero. With
/// divisor 1, the sum is unchanged. Other operations ignore `divisor`.
///
/// All `outs` (at least one) receive the same values. An output may be identical to one of the
/// sources; otherwise the ranges must not overlap. Any alignment is allowed. If `stores` is
/// kStreaming, outs[0] is written with stores that bypass the cache, and the caller must call
/// fence() before other threads or processes read outs[0]. The other outputs are always written
/// with plain stores.
void reduce(DataType type, ReduceOp op, std::span<const std::byte* const> sources,
            std::size_t count, std::size_t divisor, std::span<std::byte* const> outs,
            Stores stores);
/// The same with one output.
void reduce(DataType type, ReduceOp op, std::span<const std::byte* const> sources,
            std::size_t count, std::size_t divisor, std::byte* out, Stores stores);

/// Converts float32 to `half` (kFloat16 or kBFloat16), rounding to nearest, ties to even. Values
/// that are too large become infinite. NaN stays NaN, and infinities stay infinite. Any alignment
/// is allowed. The ranges must not overlap.
void narrow(DataType half, std::byte* to, const std::byte* from, std::size_t count);
/// Converts `half` to float32 exactly. Any alignment is allowed. The ranges must not overlap.
void widen(DataType half, std::byte* to, const std::byte* from, std::size_t count);

/// Copies bytes between ranges that must not overlap. Streaming stores bypass the cache. After
/// streaming stores, call fence() before other threads or processes read the copy.
void copy(std::byte* to, const std::byte* from, std::size_t bytes, Stores stores);

/// Orders earlier stores of the kind `stores` before the release store of a flag that publishes the
/// data. A release store itself orders plain stores but not streaming stores, so this function does
/// nothing for plain stores.
void fence(Stores stores);

/// Returns the name of the instruction set of the kernels: "avx512", "avx2" or "portable".
const char* kernel_instruction_set();

/// Returns the operation to reduce with if the division of kAverage is done separately. This is
/// kSum for kAverage, and `op` otherwise.
constexpr ReduceOp without_division(ReduceOp op) {
  return op == ReduceOp::kAverage ? ReduceOp::kSum : op;
}

/// If `op` is kAverage, divides each element by `ranks` in place, in the same way as reduce(). Does
/// nothing for other operations.
void divide_if_average(DataType type, ReduceOp op, std::byte* data, std::size_t count, int ranks);
void divide_if_average(const ScatteredBuffer& buffer, ReduceOp op, int ranks);

}  // namespace horo::collectives
