#pragma once

#include <cstddef>
#include <span>

#include "horo/base/data_type.h"
#include "horo/base/environment.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// out[i] = sources[0][i] op sources[1][i] op ... for i in [0, count), in the order of `sources`
/// for every element, so that the result does not depend on how a buffer is cut. 16-bit floats
/// accumulate in float32 and are rounded once; integers wrap. `op` is not kAdasum.
///
/// `divisor`: kAverage divides the sum by it (floats: multiplies by 1/divisor in the accumulator's
/// type; integers: rounds toward zero); other operations ignore it. 1 leaves the sum.
/// Every one of `outs` (at least one) receives the same values. Each may be one of the sources,
/// exactly; otherwise the ranges do not overlap. Any alignment; streaming stores (only to outs[0])
/// bypass the cache; fence() before others may look.
void reduce(DataType type, ReduceOp op, std::span<const std::byte* const> sources,
            std::size_t count, std::size_t divisor, std::span<std::byte* const> outs,
            Stores stores);
/// The same with one output.
void reduce(DataType type, ReduceOp op, std::span<const std::byte* const> sources,
            std::size_t count, std::size_t divisor, std::byte* out, Stores stores);

/// Converts float32 to `half` (kFloat16 or kBFloat16), rounding to nearest, ties to even. NaN and
/// infinities stay; what is too large becomes infinite. Any alignment; no overlap.
void narrow(DataType half, std::byte* to, const std::byte* from, std::size_t count);
/// Converts `half` to float32, exactly.
void widen(DataType half, std::byte* to, const std::byte* from, std::size_t count);

/// Copies bytes that do not overlap. Streaming stores bypass the cache; fence() before others may
/// look.
void copy(std::byte* to, const std::byte* from, std::size_t bytes, Stores stores);

/// Orders the stores of this kind made so far before any later store, such as that of a flag which
/// says that they are done. Plain stores need nothing.
void fence(Stores stores);

/// Name of the instruction set chosen for this machine: "avx512", "avx2" or "portable".
const char* kernel_instruction_set();

}  // namespace horo::collectives
