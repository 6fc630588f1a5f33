#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "horo/context.h"

namespace horo::libtorch {

/// A parameter or buffer of a module, and its name in the module.
struct ModuleTensor {
  std::string name;
  at::Tensor tensor;
};

/// Makes a tensor for the gradient of each parameter, initially zero. It has the shape, the type
/// and the strides of the parameter, or row-major strides if the parameter has gaps, as autograd
/// lays out gradients. All tensors lie in one block (allocate_gradients()), in the order in which
/// backward computes them. The tensors share the ownership of the block. `gpu` is null for host
/// memory. Collective: all ranks must pass equal shapes and types.
std::vector<at::Tensor> make_gradient_slots(Context& context,
                                            const std::vector<ModuleTensor>& parameters,
                                            device::Device* gpu);

}  // namespace horo::libtorch
