#pragma once

#include <span>
#include <string>
#include <string_view>

#include "horo/base/reduce_op.h"
#include "horo/base/tensor_view.h"
#include "horo/coordinator/negotiation/request.h"

namespace horo {

/// Argument checks of reductions, in addition to the checks of every operation. A failed check
/// throws InvalidArgument. The error names the operation and the tensor.

/// Rejects Adasum of a type that is not a floating-point type. Rejects the average of bool.
void check_op_type(std::string_view operation, const std::string& name, ReduceOp op, DataType type);
/// Rejects int16 and uint16, which NCCL cannot reduce. The check also applies to the host stand-in.
void check_device_type(std::string_view operation, const std::string& name, DataType type);
/// Requires that the factors are 1 or that `type` is a floating-point type. The factors must be
/// finite in the type of the multiplication: float64 for float64, and float32 for all other types.
void check_scale(std::string_view operation, const std::string& name, DataType type,
                 const coordinator::ScaleFactors& factors);
/// Requires that `input` and `output` have memory unless they are empty, that they have the same
/// type and shape, and that they are the same memory or do not overlap.
void check_allreduce_output(const std::string& name, const ConstTensorView& input,
                            const TensorView& output);
/// Requires that the tensors of a group do not overlap in memory. The error names two that overlap.
void check_apart(std::span<const NamedTensor> tensors);

/// Returns "'a' and 'b' overlap in memory" for the overlapping pair with the lowest addresses.
/// Returns an empty string if no tensors overlap.
std::string find_overlap(std::span<const NamedTensor> tensors);

}  // namespace horo
