#pragma once

#include <cstddef>
#include <optional>

#include "horo/base/data_type.h"
#include "horo/base/tensor_view.h"

namespace horo::collectives {

/// data[i] *= factor for a floating-point `type`. Values of up to 32 bits are multiplied in
/// float32, and 16-bit values are then rounded. Integers stay unchanged.
void scale(DataType type, std::byte* data, std::size_t count, double factor);

/// Sets all values to zero, even if they are NaN or infinite.
void set_zero(const TensorView& tensor);

/// Returns the sum of the squares, or 0 for integers. Adds in float64, in an order that depends
/// only on `count` and `type`. For floating-point types of up to 32 bits, the sum is finite if and
/// only if all values are finite.
double sum_of_squares(DataType type, const std::byte* data, std::size_t count);

/// A value that is infinite or NaN.
struct NonFiniteValue {
  std::size_t index = 0;
  double value = 0;
};
/// Returns the first value that is not finite, if any. Integers have none.
std::optional<NonFiniteValue> find_non_finite(DataType type, const std::byte* data,
                                              std::size_t count);

}  // namespace horo::collectives
