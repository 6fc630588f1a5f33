#pragma once

#include <string>

#include "horo/base/data_type.h"
#include "horo/base/error.h"

namespace horo::ops::device_kernels {

/// Calls `function` with a zero of float, Float16 or BFloat16. Throws InvalidArgument for other
/// types; `what` names the owner of the type in the error.
template <typename Function>
void visit_float_type(DataType type, const char* what, Function&& function) {
  switch (type) {
    case DataType::kFloat32:
      return function(float{});
    case DataType::kFloat16:
      return function(Float16{});
    case DataType::kBFloat16:
      return function(BFloat16{});
    default:
      throw InvalidArgument(std::string(what) + " of type " + std::string(name_of(type)) +
                            "; supported: float32, float16, bfloat16");
  }
}

}  // namespace horo::ops::device_kernels
