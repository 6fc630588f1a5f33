#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "collectives/reduce/kernels.h"
#include "tests/collectives/reduce/kernel_tables.h"

namespace horo::collectives {
namespace {

TEST(Copy, MovesEveryLengthAndAlignmentAndNothingElse) {
  std::vector<std::byte> from(600), to(600);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + 1);
  for (const KernelTable* table : runnable_tables())
    for (std::size_t bytes = 0; bytes <= 257; ++bytes)
      for (std::size_t offset = 0; offset < 64; offset += 1 + bytes % 7) {
        std::fill(to.begin(), to.end(), std::byte{0xee});
        table->streaming_copy(to.data() + 100 + offset, from.data() + 2 * offset, bytes);
        ASSERT_EQ(std::memcmp(to.data() + 100 + offset, from.data() + 2 * offset, bytes), 0)
            << table->instruction_set << " bytes " << bytes << " offset " << offset;
        for (std::size_t i = 0; i < to.size(); ++i)
          if (i < 100 + offset || i >= 100 + offset + bytes) {
            ASSERT_EQ(to[i], std::byte{0xee}) << "byte " << i;
          }
      }
}

TEST(Copy, PlainAndStreamingAgree) {
  std::vector<std::byte> from(100001), plain(100001), streaming(100001);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 31);
  copy(plain.data(), from.data(), from.size(), Stores::kPlain);
  copy(streaming.data(), from.data(), from.size(), Stores::kStreaming);
  EXPECT_EQ(plain, from);
  EXPECT_EQ(streaming, from);
  copy(nullptr, nullptr, 0, Stores::kStreaming);
}

TEST(InstructionSet, HasAName) {
  const std::string name = kernel_instruction_set();
  EXPECT_TRUE(name == "portable" || name == "avx2" || name == "avx512") << name;
}

}  // namespace
}  // namespace horo::collectives
