#pragma once

#if __cplusplus < 202002L
#error "horo needs C++20: compile with -std=c++20 or later"
#endif

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "horo/base/float16.h"

namespace horo {

/// The type of the elements of a tensor. Values are in the byte order of the machine.
enum class DataType : std::uint8_t {
  kFloat32,   ///< float
  kFloat64,   ///< double
  kFloat16,   ///< horo::Float16, or another IEEE 754 binary16
  kBFloat16,  ///< horo::BFloat16, the upper half of a float
  kInt8,      ///< std::int8_t
  kUInt8,     ///< std::uint8_t
  kInt16,     ///< std::int16_t
  kUInt16,    ///< std::uint16_t
  kInt32,     ///< std::int32_t
  kInt64,     ///< std::int64_t
  kBool,      ///< one byte, 0 or 1; kSum and kMax compute "or", kProduct and kMin compute "and"
};
inline constexpr int kDataTypeCount = 11;  ///< the number of element types

/// Returns the size of one element in bytes.
std::size_t size_of(DataType type);
/// Whether the type is a floating point type, including the 16-bit ones.
constexpr bool is_floating(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64 || type == DataType::kFloat16 ||
         type == DataType::kBFloat16;
}
/// Returns "float32", "bfloat16", and so on.
std::string_view name_of(DataType type);

/// The DataType of the C++ type `T`, as its `value`. Defined only for types that horo supports.
template <typename T>
struct DataTypeOf;
/// @cond specialisations of DataTypeOf
template <>
struct DataTypeOf<float> : std::integral_constant<DataType, DataType::kFloat32> {};
template <>
struct DataTypeOf<double> : std::integral_constant<DataType, DataType::kFloat64> {};
template <>
struct DataTypeOf<Float16> : std::integral_constant<DataType, DataType::kFloat16> {};
template <>
struct DataTypeOf<BFloat16> : std::integral_constant<DataType, DataType::kBFloat16> {};
template <>
struct DataTypeOf<std::int8_t> : std::integral_constant<DataType, DataType::kInt8> {};
template <>
struct DataTypeOf<std::uint8_t> : std::integral_constant<DataType, DataType::kUInt8> {};
template <>
struct DataTypeOf<std::int16_t> : std::integral_constant<DataType, DataType::kInt16> {};
template <>
struct DataTypeOf<std::uint16_t> : std::integral_constant<DataType, DataType::kUInt16> {};
template <>
struct DataTypeOf<std::int32_t> : std::integral_constant<DataType, DataType::kInt32> {};
template <>
struct DataTypeOf<std::int64_t> : std::integral_constant<DataType, DataType::kInt64> {};
template <>
struct DataTypeOf<bool> : std::integral_constant<DataType, DataType::kBool> {};
static_assert(sizeof(bool) == 1);
/// @endcond

/// An element type that horo supports: float, double, Float16, BFloat16, (u)int8, (u)int16, int32,
/// int64, bool.
template <typename T>
concept Element = requires {
  DataTypeOf<std::remove_cv_t<T>>::value;
};

/// The DataType of the C++ type `T`, which may be const.
template <Element T>
inline constexpr DataType data_type_of = DataTypeOf<std::remove_cv_t<T>>::value;

/// Calls `function` with a value-initialized element of the C++ type for `type` and returns its
/// result: visit_type(type, [&](auto zero) { using T = decltype(zero); ... }).
template <typename Function>
decltype(auto) visit_type(DataType type, Function&& function) {
  switch (type) {
    case DataType::kFloat64:
      return function(double{});
    case DataType::kFloat16:
      return function(Float16{});
    case DataType::kBFloat16:
      return function(BFloat16{});
    case DataType::kInt8:
      return function(std::int8_t{});
    case DataType::kUInt8:
      return function(std::uint8_t{});
    case DataType::kInt16:
      return function(std::int16_t{});
    case DataType::kUInt16:
      return function(std::uint16_t{});
    case DataType::kInt32:
      return function(std::int32_t{});
    case DataType::kInt64:
      return function(std::int64_t{});
    case DataType::kBool:
      return function(bool{});
    case DataType::kFloat32:
      break;
  }
  return function(float{});
}

}  // namespace horo
