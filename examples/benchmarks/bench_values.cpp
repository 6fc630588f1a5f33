#include "examples/benchmarks/bench_values.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "horo/base/error.h"

namespace horo::bench {
namespace {

// Period of the values. No power of two is a multiple of it, so that a segment at a wrong offset is
// detected.
constexpr std::size_t kPeriod = 5;

// Small whole numbers, so that sums and products are exact in every type and any order of additions
// gives the same result.
double value(int rank, std::size_t i, ReduceOp op) {
  const std::size_t place = (static_cast<std::size_t>(rank) + i) % kPeriod;
  return op == ReduceOp::kProduct ? static_cast<double>(1 + place % 2)
                                  : static_cast<double>(1 + place);
}

double reduced(std::size_t i, int ranks, ReduceOp op) {
  double result = value(0, i, op);
  for (int r = 1; r < ranks; ++r) {
    const double next = value(r, i, op);
    if (op == ReduceOp::kMin)
      result = std::min(result, next);
    else if (op == ReduceOp::kMax)
      result = std::max(result, next);
    else if (op == ReduceOp::kProduct)
      result *= next;
    else
      result += next;
  }
  return op == ReduceOp::kAverage ? result / ranks : result;
}

template <typename T>
double tolerance(ReduceOp op) {
  if (op != ReduceOp::kAverage || std::is_integral_v<T>) return 0;
  return sizeof(T) == 2 ? 0x1p-8 : 0x1p-22;
}

template <typename T>
double to_double(T element) {
  if constexpr (!std::is_arithmetic_v<T>)
    return static_cast<double>(static_cast<float>(element));
  else
    return static_cast<double>(element);
}

template <typename T>
T from_double(double number) {
  if constexpr (!std::is_arithmetic_v<T>)
    return T(static_cast<float>(number));
  else
    return static_cast<T>(number);
}

std::uint8_t byte_of(int rank, std::size_t i) {
  return static_cast<std::uint8_t>((static_cast<std::size_t>(rank) * 37 + i) % 251);
}

}  // namespace

void fill_values(const TensorView& view, int rank, ReduceOp op) {
  visit_type(view.type(), [&](auto zero) {
    using T = decltype(zero);
    std::array<T, kPeriod> values;
    for (std::size_t i = 0; i < kPeriod; ++i) values[i] = from_double<T>(value(rank, i, op));
    auto* elements = static_cast<T*>(view.data());
    for (std::size_t i = 0; i < view.count(); ++i) elements[i] = values[i % kPeriod];
  });
}

void check_values(const TensorView& view, std::size_t offset, int ranks, ReduceOp op,
                  const std::string& what) {
  visit_type(view.type(), [&](auto zero) {
    using T = decltype(zero);
    std::array<double, kPeriod> expected;
    for (std::size_t i = 0; i < kPeriod; ++i) {
      expected[i] = reduced(i, ranks, op);
      if constexpr (std::is_integral_v<T>) expected[i] = std::trunc(expected[i]);
    }
    const auto* elements = static_cast<const T*>(view.data());
    for (std::size_t i = 0; i < view.count(); ++i) {
      const double found = to_double(elements[i]);
      const double expected_value = expected[(offset + i) % kPeriod];
      if (!(std::abs(found - expected_value) <= tolerance<T>(op) * expected_value))
        throw Error(fmt::format("{}: wrong result at index {} of {}: {} instead of {}", what, i,
                                view.count(), found, expected_value));
    }
  });
}

void fill_bytes(const TensorView& view, int rank, std::size_t offset) {
  auto* bytes = static_cast<std::uint8_t*>(view.data());
  for (std::size_t i = 0; i < view.bytes(); ++i) bytes[i] = byte_of(rank, offset + i);
}

void check_bytes(const TensorView& view, std::size_t begin, std::size_t count, int rank,
                 std::size_t offset, const std::string& what) {
  const auto* bytes = static_cast<const std::uint8_t*>(view.data()) + begin;
  for (std::size_t i = 0; i < count; ++i)
    if (bytes[i] != byte_of(rank, offset + i))
      throw Error(
          fmt::format("{}: wrong byte {} of {}, where those of rank {} belong: {} instead "
                      "of {}",
                      what, begin + i, view.bytes(), rank, bytes[i], byte_of(rank, offset + i)));
}

void fill_zeros(const TensorView& view) { std::memset(view.data(), 0, view.bytes()); }

}  // namespace horo::bench
