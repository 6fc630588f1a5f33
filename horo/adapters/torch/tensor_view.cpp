#include "horo/adapters/torch/tensor_view.h"

#include <c10/util/StringUtil.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "horo/base/error.h"

namespace horo::libtorch {
namespace {

DataType type_of(const at::Tensor& tensor, const std::string& name) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return DataType::kFloat32;
    case at::kDouble:
      return DataType::kFloat64;
    case at::kHalf:
      return DataType::kFloat16;
    case at::kBFloat16:
      return DataType::kBFloat16;
    case at::kChar:
      return DataType::kInt8;
    case at::kByte:
      return DataType::kUInt8;
    case at::kShort:
      return DataType::kInt16;
    case at::kInt:
      return DataType::kInt32;
    case at::kLong:
      return DataType::kInt64;
    case at::kBool:
      return DataType::kBool;
    default:
      throw InvalidArgument(c10::str(
          name, " has the element type ", at::toString(tensor.scalar_type()),
          "; horo supports bool, integers of 8 to 64 bits, float, double, half and bfloat16"));
  }
}

std::string strides_of(const at::Tensor& tensor) {
  return c10::str("shape ", tensor.sizes(), " and strides ", tensor.strides());
}

void require_memory(const at::Tensor& tensor, const device::Device* gpu, const std::string& name) {
  HORO_CHECK(tensor.defined(), name + " is undefined");
  HORO_CHECK(tensor.layout() == at::kStrided,
             name +
                 " is sparse; horo exchanges dense tensors (torch::nn::Embedding: "
                 "EmbeddingOptions::sparse(false))");
  HORO_CHECK(tensor.is_cpu() || tensor.is_cuda(),
             c10::str(name, " is on the device ", tensor.device().str(),
                      "; horo supports the CPU and GPUs of CUDA"));
  HORO_CHECK(tensor.is_cpu() || gpu != nullptr,
             name + " is in the memory of a GPU; pass the device of horo::open_gpu()");
}

TensorView make_view(const at::Tensor& tensor, Shape shape, device::Device* gpu,
                     const std::string& name) {
  const DataType type = type_of(tensor, name);
  if (tensor.is_cpu()) return {tensor.data_ptr(), type, std::move(shape)};
  return {tensor.data_ptr(), type, std::move(shape), *gpu};
}

}  // namespace

TensorView view_of(const at::Tensor& tensor, device::Device* gpu, const std::string& name) {
  require_memory(tensor, gpu, name);
  HORO_CHECK(tensor.is_contiguous(),
             c10::str(name, " of ", strides_of(tensor),
                      " is not contiguous in row-major order; pass the result of contiguous()"));
  std::vector<std::size_t> dimensions(tensor.sizes().begin(), tensor.sizes().end());
  if (dimensions.empty()) dimensions.push_back(1);
  return make_view(tensor, Shape(std::move(dimensions)), gpu, name);
}

TensorView flat_view_of(const at::Tensor& tensor, device::Device* gpu, const std::string& name) {
  require_memory(tensor, gpu, name);
  HORO_CHECK(tensor.is_non_overlapping_and_dense(),
             c10::str(name, " of ", strides_of(tensor),
                      " has gaps or repeated elements in memory; pass the result of clone()"));
  return make_view(tensor, Shape{tensor.numel()}, gpu, name);
}

}  // namespace horo::libtorch
