#include "collectives/reduce/tensor_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "horo/base/float16.h"

namespace horo::collectives {
namespace {

template <typename T>
std::byte* bytes_of(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

template <typename T>
class TensorValues : public ::testing::Test {};
using FloatingTypes = ::testing::Types<float, double, Float16, BFloat16>;
TYPED_TEST_SUITE(TensorValues, FloatingTypes);

TYPED_TEST(TensorValues, ScaleAndSquareAtAnyCount) {
  for (const std::size_t count : {0u, 1u, 15u, 16u, 17u, 2047u, 2048u, 2049u, 5000u}) {
    std::vector<TypeParam> values;
    double expected = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = static_cast<float>(static_cast<int>(i % 17) - 8);
      values.emplace_back(value);
      expected += static_cast<double>(value) * static_cast<double>(value);
    }
    const DataType type = data_type_of<TypeParam>;
    EXPECT_EQ(sum_of_squares(type, bytes_of(values), count), expected) << count;
    scale(type, bytes_of(values), count, -0.25);
    EXPECT_EQ(sum_of_squares(type, bytes_of(values), count), expected / 16) << count;
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(static_cast<float>(values[i]),
                -0.25f * static_cast<float>(static_cast<int>(i % 17) - 8));
  }
}

TYPED_TEST(TensorValues, FindFirstNonFinite) {
  const DataType type = data_type_of<TypeParam>;
  std::vector<TypeParam> values(5000, TypeParam(1.0f));
  EXPECT_FALSE(find_non_finite(type, bytes_of(values), values.size()).has_value());
  for (const std::size_t at : {4999u, 2048u, 2047u, 0u}) {
    values[at] = TypeParam(at % 2 == 0 ? -std::numeric_limits<float>::infinity()
                                       : std::numeric_limits<float>::quiet_NaN());
    const auto found = find_non_finite(type, bytes_of(values), values.size());
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->index, at);
    EXPECT_EQ(std::isnan(found->value), at % 2 == 1);
    EXPECT_FALSE(std::isfinite(sum_of_squares(type, bytes_of(values), values.size())));
  }
}

TEST(TensorValuesOfFloat32, LargestSquaresStayFinite) {
  std::vector<float> values(1000, std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(sum_of_squares(DataType::kFloat32, bytes_of(values), values.size())));
}

TEST(TensorValuesOfIntegers, StayUnchanged) {
  std::vector<std::int32_t> values(100, 3);
  scale(DataType::kInt32, bytes_of(values), values.size(), 2);
  EXPECT_EQ(values[99], 3);
  EXPECT_EQ(sum_of_squares(DataType::kInt32, bytes_of(values), values.size()), 0);
  EXPECT_FALSE(find_non_finite(DataType::kInt32, bytes_of(values), values.size()).has_value());
}

}  // namespace
}  // namespace horo::collectives
