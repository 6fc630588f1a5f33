#include "horo/c/values.h"

#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"
#include "horo/c/objects.h"

namespace horo::c {

static_assert(static_cast<int>(DataType::kFloat32) == HORO_FLOAT32 &&
              static_cast<int>(DataType::kBFloat16) == HORO_BFLOAT16 &&
              static_cast<int>(DataType::kUInt8) == HORO_UINT8 &&
              static_cast<int>(DataType::kUInt16) == HORO_UINT16 &&
              static_cast<int>(DataType::kInt64) == HORO_INT64 &&
              static_cast<int>(DataType::kBool) == HORO_BOOL && kDataTypeCount == HORO_BOOL + 1);
static_assert(static_cast<int>(ReduceOp::kAverage) == HORO_AVERAGE &&
              static_cast<int>(ReduceOp::kSum) == HORO_SUM &&
              static_cast<int>(ReduceOp::kMax) == HORO_MAX &&
              static_cast<int>(ReduceOp::kAdasum) == HORO_ADASUM &&
              kReduceOpCount == HORO_ADASUM + 1);

DataType type_of(horo_data_type type) {
  const auto value = static_cast<int>(type);
  HORO_CHECK(value >= 0 && value < kDataTypeCount,
             fmt::format("{} is not a horo_data_type; choose HORO_FLOAT32 (0) to HORO_BOOL ({})",
                         value, kDataTypeCount - 1));
  return static_cast<DataType>(value);
}

ReduceOp op_of(horo_reduce_op op) {
  const auto value = static_cast<int>(op);
  HORO_CHECK(value >= 0 && value < kReduceOpCount,
             fmt::format("{} is not a horo_reduce_op; choose HORO_AVERAGE (0) to HORO_ADASUM ({})",
                         value, kReduceOpCount - 1));
  return static_cast<ReduceOp>(value);
}

TensorView view_of(const horo_tensor& tensor) {
  Shape shape(std::vector<std::size_t>{tensor.count});
  if (tensor.dimensions != nullptr) {
    shape = Shape(
        std::vector<std::size_t>(tensor.dimensions, tensor.dimensions + tensor.dimension_count));
    HORO_CHECK(shape.count() == tensor.count,
               fmt::format("tensor '{}' has the dimensions {}, which are {} elements, and count {}",
                           text_of(tensor.name), shape.to_string(), shape.count(), tensor.count));
  }
  const DataType type = type_of(tensor.type);
  if (tensor.device == nullptr) return {tensor.data, type, std::move(shape)};
  return {tensor.data, type, std::move(shape), *tensor.device->device};
}

TensorView vector_of(void* data, std::size_t count, horo_data_type type) {
  return {data, type_of(type), Shape(std::vector<std::size_t>{count})};
}

ConstTensorView vector_of(const void* data, std::size_t count, horo_data_type type) {
  return {data, type_of(type), Shape(std::vector<std::size_t>{count})};
}

std::vector<NamedTensor> named(const horo_tensor* tensors, std::size_t count) {
  HORO_CHECK(tensors != nullptr || count == 0,
             fmt::format("the list of {} tensors is null", count));
  std::vector<NamedTensor> result;
  for (std::size_t i = 0; i < count; ++i)
    result.push_back({text_of(tensors[i].name), view_of(tensors[i])});
  return result;
}

std::string text_of(const char* text) { return text == nullptr ? std::string() : text; }

}  // namespace horo::c
