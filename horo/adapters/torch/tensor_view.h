#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "horo/context.h"

/// horo for programs that train models of libtorch, the C++ library of PyTorch. The namespace is
/// not horo::torch, because `torch` would then be ambiguous after `using namespace horo`.
namespace horo::libtorch {

/// A view of the memory of `tensor`, for the operations of Context:
///
///     ctx.allreduce(libtorch::view_of(loss), {.name = "loss"});
///
/// The tensor must stay alive until the operation has completed. `gpu` is what open_gpu() returns
/// if the tensor is in the memory of a GPU; it has no effect for a tensor in host memory. A tensor
/// without dimensions has the shape [1]. `name` is the name of the tensor in errors. Not
/// collective. Thread-safe.
///
/// Throws InvalidArgument if the tensor is undefined or sparse, if it is not contiguous in
/// row-major order, or if horo does not support its type or its device.
TensorView view_of(const at::Tensor& tensor, device::Device* gpu = nullptr,
                   const std::string& name = "a tensor");

/// A view of all elements of a tensor in the order of their addresses, with one dimension. For
/// operations that do not depend on the order of the elements, on tensors with equal strides on all
/// ranks. Throws as view_of() does, but accepts any order of the dimensions in memory, such as
/// channels_last, as long as the elements have no gaps.
TensorView flat_view_of(const at::Tensor& tensor, device::Device* gpu = nullptr,
                        const std::string& name = "a tensor");

}  // namespace horo::libtorch
