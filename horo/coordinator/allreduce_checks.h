#pragma once

#include <span>
#include <string>
#include <string_view>

#include "horo/base/reduce_op.h"
#include "horo/base/tensor_view.h"
#include "horo/coordinator/negotiation/request.h"

namespace horo {

/// Argument checks of reductions, in addition to the checks of every operation. Each throws
/// InvalidArgument and names `operation` and the tensor `name` in the error.

/// Rejects Adasum of types that are not floating point, and averages of bool.
void check_op_type(std::string_view operation, const std::string& name, ReduceOp op, DataType type);
/// Rejects types that NCCL cannot reduce, on the host stand-in too.
void check_device_type(std::string_view operation, const std::string& name, DataType type);
/// Requires finite factors, also after conversion to `type`. Factors of integers must be 1.
void check_scale(std::string_view operation, const std::string& name, DataType type,
                 const coordinator::ScaleFactors& factors);
/// Requires that `output` has memory and the type and shape of `input`. The two are the same memory
/// or do not overlap.
void check_allreduce_output(const std::string& name, const ConstTensorView& input,
                            const TensorView& output);
/// Requires that the tensors of a group do not overlap in memory.
void check_apart(std::span<const NamedTensor> tensors);

/// Returns "'a' and 'b' overlap in memory" for the overlapping pair with the lowest addresses, or
/// an empty string if no tensors overlap.
std::string find_overlap(std::span<const NamedTensor> tensors);

}  // namespace horo
