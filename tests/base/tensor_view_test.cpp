#include "horo/base/tensor_view.h"

#include <gtest/gtest.h>

#include <array>

#include "horo/base/error.h"

namespace horo {
namespace {

TEST(Shape, CountAndText) {
  EXPECT_EQ(Shape{}.count(), 1u);
  EXPECT_EQ((Shape{2, 3, 4}).count(), 24u);
  EXPECT_EQ((Shape{5, 0}).count(), 0u);
  EXPECT_EQ((Shape{17, 18}).to_string(), "[17, 18]");
  EXPECT_EQ(Shape{}.to_string(), "[]");
}

TEST(TensorView, ContainersConvert) {
  std::vector<float> vector(5);
  std::array<std::int32_t, 3> array{};
  std::span<double> span;
  const TensorView a(vector);
  const TensorView b(array);
  const TensorView c = span;
  EXPECT_EQ(a.data(), vector.data());
  EXPECT_EQ(a.shape(), Shape{5});
  EXPECT_EQ(a.bytes(), 20u);
  EXPECT_EQ(b.type(), DataType::kInt32);
  EXPECT_EQ(c.count(), 0u);
  static_assert(!std::is_constructible_v<TensorView, const std::vector<float>&>);
  static_assert(std::is_constructible_v<ConstTensorView, const std::vector<float>&>);
}

// The memory of a temporary is freed before an operation has used it.
TEST(TensorView, RejectsOwningTemporaries) {
  static_assert(!std::is_constructible_v<TensorView, std::vector<float>>);
  static_assert(!std::is_constructible_v<TensorView, std::array<float, 3>>);
  static_assert(!std::is_constructible_v<ConstTensorView, std::vector<float>>);
  static_assert(!std::is_constructible_v<ConstTensorView, const std::vector<float>>);
  static_assert(std::is_constructible_v<TensorView, std::span<float>>);
  static_assert(std::is_constructible_v<ConstTensorView, std::span<const float>>);
  static_assert(std::is_constructible_v<ConstTensorView, TensorView>);
  static_assert(!std::is_constructible_v<TensorView, ConstTensorView>);
}

TEST(Shape, AllocatesOnce) {
  EXPECT_EQ((Shape{2, 3, 4}).dimensions().capacity(), 3u);
  EXPECT_EQ((Shape{2, 3, 4, 5, 6}).dimensions().capacity(), 5u);
}

TEST(Shape, DimensionsMayBeOfAnyIntegerType) {
  const int rows = 3;
  const std::int64_t columns = 4;
  const unsigned char depth = 2;
  EXPECT_EQ((Shape{rows, columns, depth}), (Shape{3, 4, 2}));
  const int bad = -7;
  try {
    Shape{rows, bad};
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "shape [3, -7]: a dimension must not be negative");
  }
}

TEST(Shape, RefusesTooManyElements) {
  const std::size_t large = std::size_t{1} << 40;
  for (const Shape& shape : {Shape{large, large}, Shape{large, 1 << 23}, Shape{1, large, 3, large}})
    try {
      (void)TensorView(nullptr, DataType::kInt8, shape);
      FAIL() << shape.to_string();
    } catch (const InvalidArgument& error) {
      EXPECT_EQ(error.what(), "shape " + shape.to_string() + " has 2^63 elements or more");
    }
  EXPECT_EQ((Shape{large, large, 0}).count(), 0u);
  try {
    (void)TensorView(nullptr, DataType::kFloat32, Shape{large, 1 << 21});
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(),
                 "a tensor of float32 [1099511627776, 2097152] has 2^63 bytes or more");
  }
}

TEST(TensorView, PointerAndShape) {
  std::vector<BFloat16> values(6);
  const TensorView view(values.data(), {2, 3});
  EXPECT_EQ(view.count(), 6u);
  EXPECT_EQ(view.bytes(), 12u);
  EXPECT_EQ(view.type(), DataType::kBFloat16);
}

TEST(DataType, SizesAndNames) {
  const std::pair<DataType, std::size_t> sizes[] = {
      {DataType::kFloat32, 4},  {DataType::kFloat64, 8}, {DataType::kFloat16, 2},
      {DataType::kBFloat16, 2}, {DataType::kInt8, 1},    {DataType::kUInt8, 1},
      {DataType::kInt16, 2},    {DataType::kUInt16, 2},  {DataType::kInt32, 4},
      {DataType::kInt64, 8},    {DataType::kBool, 1}};
  EXPECT_EQ(std::size(sizes), static_cast<std::size_t>(kDataTypeCount));
  for (const auto& [type, size] : sizes) EXPECT_EQ(size_of(type), size) << name_of(type);
}

TEST(HoroCheck, ThrowsMessageOrExpression) {
  EXPECT_NO_THROW(HORO_CHECK(1 + 1 == 2, "never"));
  try {
    HORO_CHECK(1 > 2, "one is not more than two");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "one is not more than two");
  }
  try {
    HORO_CHECK(1 > 2, "");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("1 > 2"), std::string::npos);
  }
}

}  // namespace
}  // namespace horo
