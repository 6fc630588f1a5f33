#pragma once

#include <span>
#include <string>
#include <string_view>

#include "horo/base/reduce_op.h"
#include "horo/base/tensor_view.h"
#include "horo/coordinator/scale_factors.h"

namespace horo {

/// What the arguments of a reduction must fulfil, beyond those of every operation. Each throws
/// InvalidArgument that names `operation` and the tensor `name`.

/// Adasum is for floating point; there is no average of bool.
void check_op_type(std::string_view operation, const std::string& name, ReduceOp op, DataType type);
/// Types that NCCL cannot reduce are not reduced on any device.
void check_device_type(std::string_view operation, const std::string& name, DataType type);
/// Factors are finite, in the type's arithmetic too; those of integers are 1.
void check_scale(std::string_view operation, const std::string& name, DataType type,
                 const coordinator::ScaleFactors& factors);
/// An output of an allreduce has memory, and its input's type and shape; it is the input or does
/// not overlap it.
void check_allreduce_output(const std::string& name, const ConstTensorView& input,
                            const TensorView& output);
/// The tensors of a group that is reduced do not overlap in memory.
void check_apart(std::span<const NamedTensor> tensors);

/// "'a' and 'b' overlap in memory", of the first two in memory that do; empty if none do.
std::string find_overlap(std::span<const NamedTensor> tensors);

}  // namespace horo
