#pragma once

#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <type_traits>

#include "horo/base/float16.h"

namespace horo::fakes {

/// Calls function(x) with a value x of the C++ type for `type`.
template <typename Function>
auto visit(ncclDataType_t type, const Function& function) {
  switch (type) {
    case ncclInt8:
      return function(std::int8_t{});
    case ncclUint8:
      return function(std::uint8_t{});
    case ncclInt32:
      return function(std::int32_t{});
    case ncclInt64:
      return function(std::int64_t{});
    case ncclFloat16:
      return function(Float16{});
    case ncclBfloat16:
      return function(BFloat16{});
    case ncclFloat32:
      return function(float{});
    case ncclFloat64:
      return function(double{});
    default:
      throw std::invalid_argument("the fake does not support this type");
  }
}

inline std::size_t size_of(ncclDataType_t type) {
  return visit(type, [](auto x) { return sizeof x; });
}

/// Combines `count` elements of each rank into `to`. 16-bit types are rounded once, at the end.
template <typename T>
void reduce(T* to, std::span<const std::byte* const> inputs, std::size_t count, ncclRedOp_t op) {
  constexpr bool is_narrow = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
  using Wide = std::conditional_t<is_narrow, float, T>;
  const auto combine = [op](Wide a, Wide b) -> Wide {
    if (op == ncclProd) return static_cast<Wide>(a * b);
    if (op == ncclMin) return std::min(a, b);
    if (op == ncclMax) return std::max(a, b);
    return static_cast<Wide>(a + b);
  };
  for (std::size_t i = 0; i < count; ++i) {
    auto sum = static_cast<Wide>(reinterpret_cast<const T*>(inputs[0])[i]);
    for (const std::byte* input : inputs.subspan(1))
      sum = combine(sum, static_cast<Wide>(reinterpret_cast<const T*>(input)[i]));
    if (op == ncclAvg) sum = static_cast<Wide>(sum / static_cast<Wide>(inputs.size()));
    to[i] = static_cast<T>(sum);
  }
}

}  // namespace horo::fakes
