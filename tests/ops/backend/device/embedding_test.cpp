#include "ops/backend/device/embedding.h"

#include <cmath>

#include "tests/ops/backend/device/device_values.h"

namespace horo::ops::device_kernels {
namespace {

std::vector<std::int32_t> varied_tokens(std::size_t count, std::size_t vocabulary) {
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < count; ++i)  // token 2 occurs often
    tokens.push_back(i % 3 == 0 ? 2 : static_cast<std::int32_t>(i * i * 31 % vocabulary));
  return tokens;
}

template <typename T>
void check(std::size_t width, std::size_t skip, bool has_positions) {
  SCOPED_TRACE("width " + std::to_string(width) + ", skip " + std::to_string(skip));
  constexpr std::size_t kTokens = 41, kVocabulary = 19, kPeriod = 7;
  TestDevice test;
  const auto tokens = varied_tokens(kTokens, kVocabulary);
  DeviceValues<T> table(test.device, varied_values(kVocabulary * width, 1), skip);
  DeviceValues<T> positions(test.device, varied_values(kPeriod * width, 2), skip);
  DeviceValues<T> y(test.device, std::vector<float>(kTokens * width), skip);
  DeviceValues<T> dy(test.device, varied_values(kTokens * width, 3), skip);
  DeviceValues<T> dtable(test.device, varied_values(kVocabulary * width, 4), skip);
  DeviceValues<T> dpositions(test.device, varied_values((kPeriod + 2) * width, 5), skip);
  embedding_forward(*test.stream, y.data(), table.data(), tokens.data(),
                    {kTokens, kVocabulary, width}, has_positions ? positions.data() : nullptr,
                    kPeriod);
  embedding_backward(*test.stream, dtable.data(), dy.data(), tokens.data(),
                     {kTokens, kVocabulary, width});
  positions_backward(*test.stream, dpositions.data(), kPeriod + 2, dy.data(), kTokens, kPeriod,
                     width);
  test.stream->synchronize();
  reference::Values expected(kVocabulary * width), by_position((kPeriod + 2) * width);
  for (std::size_t i = 0; i < kTokens; ++i)
    for (std::size_t c = 0; c < width; ++c) {
      const std::size_t at = static_cast<std::size_t>(tokens[i]) * width + c;
      const float position = has_positions ? positions.values()[i % kPeriod * width + c] : 0;
      ASSERT_EQ(static_cast<float>(y.data()[i * width + c]),
                static_cast<float>(static_cast<T>(static_cast<float>(table.data()[at]) + position)))
          << "token " << i << " column " << c;
      const auto gradient = static_cast<double>(static_cast<float>(dy.data()[i * width + c]));
      expected[at] += gradient;
      by_position[i % kPeriod * width + c] += gradient;
    }
  const double tolerance = std::is_same_v<T, float>     ? 1e-5
                           : std::is_same_v<T, Float16> ? 1e-3
                                                        : 1e-2;
  expect_close(dtable.values(), expected, tolerance);
  expect_close(dpositions.values(), by_position, tolerance);
  for (auto* array : {&y, &dtable, &dpositions}) array->expect_guards();
}

TEST(DeviceEmbedding, GathersAndScatters) {
  for (const std::size_t width : {1, 4, 24, 33})
    for (const std::size_t skip : {0, 1}) {
      check<float>(width, skip, true);
      check<Float16>(width, skip, false);
      check<BFloat16>(width, skip, true);
    }
  check<float>(1100, 0, false);
}

TEST(DeviceEmbedding, UnknownTokenIsNan) {
  TestDevice test;
  const std::vector<std::int32_t> tokens{1, -1, 3, 2};
  const std::vector<float> table = varied_values(3 * 8, 1);
  std::vector<float> y(4 * 8);
  embedding_forward(*test.stream, y.data(), table.data(), tokens.data(), {4, 3, 8});
  test.stream->synchronize();
  for (std::size_t c = 0; c < 8; ++c) {
    EXPECT_EQ(y[c], table[8 + c]);
    EXPECT_TRUE(std::isnan(y[8 + c]) && std::isnan(y[16 + c]));
    EXPECT_EQ(y[24 + c], table[16 + c]);
  }
}

}  // namespace
}  // namespace horo::ops::device_kernels
