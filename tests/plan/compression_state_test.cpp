#include "horo/plan/compression_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "horo/base/error.h"

namespace horo::plan {
namespace {

using namespace std::string_view_literals;

// Checkpoints of version 1 must stay readable.
TEST(CompressionStateFormat, KeepsLayoutOfVersion1) {
  const CompressionState state{.identity = {"ab"}, .step = 5, .values = {1.0F, -2.0F}};
  const std::vector<std::byte> bytes = encode_state(state);
  constexpr std::string_view kExpected =
      "HOROCMPR\x01\0\0\0\x01\0\0\0\x3a\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"
      "\x02\0\0\0\0\0\0\0"
      "ab\0\0\x80\x3f\0\0\0\xc0"sv;
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), kExpected);
  const CompressionState decoded = decode_state(bytes, state.identity, 2);
  EXPECT_EQ(decoded.step, state.step);
  EXPECT_EQ(decoded.values, state.values);
}

TEST(CompressionStateFormat, RefusesStateOfOtherLength) {
  const CompressionState state{.identity = {"ab", ""}, .step = 5, .values = {1.0F}};
  const std::vector<std::byte> bytes = encode_state(state);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(decode_state(std::span(bytes).first(size), state.identity, 1), InvalidArgument);
  for (const std::size_t at :
       {std::size_t{12}, std::size_t{16}, std::size_t{32}, std::size_t{40}}) {
    std::vector<std::byte> damaged = bytes;
    std::fill_n(damaged.begin() + static_cast<std::ptrdiff_t>(at), 4, std::byte{0xff});
    EXPECT_THROW(decode_state(damaged, state.identity, 1), InvalidArgument) << at;
  }
  EXPECT_THROW(decode_state(bytes, state.identity, 2), InvalidArgument);
}

}  // namespace
}  // namespace horo::plan
