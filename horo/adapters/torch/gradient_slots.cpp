#include "horo/adapters/torch/gradient_slots.h"

#include <ATen/Functions.h>

#include <utility>

#include "horo/adapters/torch/gradient_memory.h"

namespace horo::libtorch {
namespace {

std::size_t padded_bytes(const at::Tensor& tensor) {
  return (tensor.nbytes() + kGradientAlignment - 1) / kGradientAlignment * kGradientAlignment;
}

at::Tensor make_slot(const at::Tensor& parameter, const GradientMemory& block, std::byte* data) {
  const at::Tensor layout = parameter.is_non_overlapping_and_dense()
                                ? parameter
                                : at::empty(parameter.sizes(), parameter.options());
  return at::from_blob(
      data, layout.sizes(), layout.strides(), [owner = block.owner](void*) {},
      at::TensorOptions(parameter.scalar_type()).device(parameter.device()));
}

}  // namespace

std::vector<at::Tensor> make_gradient_slots(Context& context,
                                            const std::vector<ModuleTensor>& parameters,
                                            device::Device* gpu) {
  std::size_t bytes = 0;
  for (const ModuleTensor& parameter : parameters) bytes += padded_bytes(parameter.tensor);
  const GradientMemory block =
      gpu == nullptr ? allocate_gradients(context, bytes) : allocate_gradients(*gpu, bytes);
  std::vector<at::Tensor> slots(parameters.size());
  std::byte* next = block.data;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const at::Tensor& parameter = parameters[i].tensor;
    slots[i] = make_slot(parameter, block, std::exchange(next, next + padded_bytes(parameter)));
    if (gpu != nullptr) slots[i].zero_();
  }
  return slots;
}

}  // namespace horo::libtorch
