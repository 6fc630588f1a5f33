#pragma once

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"
#include "horo/base/tensor_view.h"
#include "horo/horo_c.h"

namespace horo::c {

/// Conversions of values of horo_c.h. They throw InvalidArgument for values out of range.
DataType type_of(horo_data_type type);
ReduceOp op_of(horo_reduce_op op);
TensorView view_of(const horo_tensor& tensor);
/// A view of a vector in host memory.
TensorView vector_of(void* data, std::size_t count, horo_data_type type);
ConstTensorView vector_of(const void* data, std::size_t count, horo_data_type type);
std::vector<NamedTensor> named(const horo_tensor* tensors, std::size_t count);
/// "" for null.
std::string text_of(const char* text);

/// Copies a structure of the caller over `defaults`. A caller that was compiled with an earlier
/// version has a smaller structure, and keeps the defaults of the fields that it does not know.
template <typename Struct>
Struct complete(const Struct* given, const Struct& defaults) {
  if (given == nullptr) return defaults;
  Struct result = defaults;
  std::memcpy(&result, given, given->size < sizeof result ? given->size : sizeof result);
  result.size = sizeof result;
  return result;
}

/// Copies as much of `result` to the caller as the caller's structure has room for.
template <typename Struct>
void give(const Struct& result, Struct& to) {
  const std::size_t size = to.size < sizeof result ? to.size : sizeof result;
  std::memcpy(&to, &result, size);
  to.size = size;
}

}  // namespace horo::c
