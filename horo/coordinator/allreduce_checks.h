#pragma once

#include <span>
#include <string>
#include <string_view>

#include "horo/base/reduce_op.h"
#include "horo/base/tensor_view.h"
#include "horo/coordinator/negotiation/request.h"
#include "horo/device/device.h"

namespace horo {

/// The functions check_...() check arguments of reductions, in addition to the checks of every
/// operation. If a check fails, they throw InvalidArgument with the names of the operation and of
/// the tensors concerned.

/// Rejects Adasum for types that are not floating-point types, and kAverage for bool.
void check_op_type(std::string_view operation, const std::string& name, ReduceOp op, DataType type);
/// Rejects int16 and uint16, which NCCL cannot reduce. The check also applies to the host stand-in
/// for a GPU.
void check_device_type(std::string_view operation, const std::string& name, DataType type);
/// Requires that each factor is 1, or that `type` is a floating-point type and the factor is finite
/// in the type of the multiplication. This type is float64 for float64, and float32 for the other
/// floating-point types.
void check_scale(std::string_view operation, const std::string& name, DataType type,
                 const coordinator::ScaleFactors& factors);
/// Requires that `input` and `output` have memory unless they are empty, that they have the same
/// type and shape, and that they are the same memory or do not overlap.
void check_allreduce_output(const std::string& name, const ConstTensorView& input,
                            const TensorView& output);
/// Requires that the tensors of a group do not overlap in memory. The error names two tensors that
/// overlap.
void check_apart(std::span<const NamedTensor> tensors);

/// Returns "host memory" if `device` is null, or a text such as "memory of NVIDIA H200 (GPU 0)".
std::string describe_memory(const device::Device* device);
/// Throws InvalidArgument, which begins with `what`, if `stream` is null and `device` has no
/// default stream.
void check_stream(std::string_view what, const device::Device& device, const void* stream);

/// Returns a text such as "'a' and 'b' overlap in memory" about two tensors that overlap. Returns
/// an empty string if no tensors overlap.
std::string find_overlap(std::span<const NamedTensor> tensors);

}  // namespace horo
