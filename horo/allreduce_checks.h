#pragma once

#include <string>
#include <string_view>

#include "horo/base/reduce_op.h"
#include "horo/base/tensor_view.h"
#include "horo/coordinator/scale_factors.h"

namespace horo {

/// What the arguments of a reduction must fulfil, beyond those of every operation. Each throws
/// InvalidArgument that names `operation` and the tensor `name`.

/// Adasum is for floating point.
void check_adasum_type(const std::string& name, ReduceOp op, DataType type);
/// Factors are finite, in the type's arithmetic too; those of integers are 1.
void check_scale(std::string_view operation, const std::string& name, DataType type,
                 const coordinator::ScaleFactors& factors);
/// An output of an allreduce has memory, and its input's type and shape; it is the input or does
/// not overlap it.
void check_allreduce_output(const std::string& name, const TensorView& input,
                            const TensorView& output);

}  // namespace horo
