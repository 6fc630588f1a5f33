#pragma once

#include <cstddef>
#include <optional>

#include "horo/base/data_type.h"

namespace horo::collectives {

/// data[i] *= factor for a floating point `type`; 16-bit values and float32 are multiplied in
/// float32 and rounded once. Integers stay as they are.
void scale(DataType type, std::byte* data, std::size_t count, double factor);

/// The sum of the squares in float64, in an order that depends on `count` and `type` alone; 0 for
/// integers. For types up to 32 bits it is finite if and only if all values are.
double sum_of_squares(DataType type, const std::byte* data, std::size_t count);

/// A value that is infinite or not a number.
struct NonFiniteValue {
  std::size_t index = 0;
  double value = 0;
};
/// The first one; none among integers.
std::optional<NonFiniteValue> find_non_finite(DataType type, const std::byte* data,
                                              std::size_t count);

}  // namespace horo::collectives
