#include "ops/backend/device/embedding.h"

#include <gmock/gmock.h>

#include <cmath>

#include "horo/base/error.h"
#include "tests/ops/backend/device/device_values.h"

namespace horo::ops::device_kernels {
namespace {

using ::testing::ElementsAre;

std::vector<std::int32_t> varied_tokens(std::size_t count, std::size_t vocabulary) {
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < count; ++i)  // token 2 occurs often
    tokens.push_back(i % 3 == 0 ? 2 : static_cast<std::int32_t>(i * i * 31 % vocabulary));
  return tokens;
}

TEST(SortTokens, SortsThePositionsOfEachToken) {
  const TokenOrder order = sort_tokens(std::vector<std::int32_t>{4, 1, 4, 0, 1, 4}, 6);
  EXPECT_THAT(order.places, ElementsAre(3, 1, 4, 0, 2, 5));
  ASSERT_EQ(order.uses.size(), 3u);
  const std::int32_t tokens[] = {0, 1, 4};
  const std::uint32_t first[] = {0, 1, 3}, last[] = {1, 3, 6};
  for (std::size_t u = 0; u < 3; ++u) {
    EXPECT_EQ(order.uses[u].token, tokens[u]);
    EXPECT_EQ(order.uses[u].first, first[u]);
    EXPECT_EQ(order.uses[u].last, last[u]);
  }
  EXPECT_TRUE(sort_tokens({}, 6).uses.empty());
}

TEST(SortTokens, RefusesTokensOutsideTheVocabulary) {
  for (const std::int32_t token : {-1, 6}) {
    try {
      sort_tokens(std::vector<std::int32_t>{1, token}, 6);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const InvalidArgument& error) {
      EXPECT_EQ(std::string(error.what()), "embedding: position 1 of the batch has token " +
                                               std::to_string(token) + "; expected 0 to 5");
    }
  }
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
  DeviceValues<float> dtable(test.device, varied_values(kVocabulary * width, 4), skip);
  const auto before = dtable.values();
  embedding_forward(*test.stream, y.data(), table.data(), tokens.data(),
                    {kTokens, kVocabulary, width}, has_positions ? positions.data() : nullptr,
                    kPeriod);
  const TokenOrder order = sort_tokens(tokens, kVocabulary);
  embedding_backward(*test.stream, dtable.data(), dy.data(), width, order.places.data(),
                     order.uses.data(), order.uses.size());
  test.stream->synchronize();
  auto expected = in_double(before);
  for (std::size_t i = 0; i < kTokens; ++i)
    for (std::size_t c = 0; c < width; ++c) {
      const std::size_t at = static_cast<std::size_t>(tokens[i]) * width + c;
      const float position = has_positions ? positions.values()[i % kPeriod * width + c] : 0;
      ASSERT_EQ(static_cast<float>(y.data()[i * width + c]),
                static_cast<float>(static_cast<T>(static_cast<float>(table.data()[at]) + position)))
          << "token " << i << " column " << c;
      expected[at] += static_cast<double>(static_cast<float>(dy.data()[i * width + c]));
    }
  expect_close(dtable.values(), expected, 1e-5);
  y.expect_guards();
  dtable.expect_guards();
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
