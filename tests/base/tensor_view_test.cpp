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
  static_assert(!std::is_constructible_v<TensorView, std::vector<std::string>&>);
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
      {DataType::kInt32, 4},    {DataType::kInt64, 8}};
  EXPECT_EQ(std::size(sizes), static_cast<std::size_t>(kDataTypeCount));
  for (const auto& [type, size] : sizes) EXPECT_EQ(size_of(type), size) << name_of(type);
}

TEST(HoroCheck, ThrowsTheMessageOrTheExpression) {
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
