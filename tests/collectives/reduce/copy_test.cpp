#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "collectives/reduce/kernels.h"
#include "tests/collectives/reduce/kernel_tables.h"

namespace horo::collectives {
namespace {

void expect_copies(void (*copy_kernel)(std::byte*, const std::byte*, std::size_t),
                   std::size_t bytes, std::size_t offset) {
  std::vector<std::byte> from(1700), to(1700, std::byte{0xee});
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 256);
  copy_kernel(to.data() + 100 + offset, from.data() + 2 * offset, bytes);
  ASSERT_EQ(std::memcmp(to.data() + 100 + offset, from.data() + 2 * offset, bytes), 0)
      << "bytes " << bytes << " offset " << offset;
  for (std::size_t i = 0; i < to.size(); ++i)
    if (i < 100 + offset || i >= 100 + offset + bytes) {
      ASSERT_EQ(to[i], std::byte{0xee}) << "byte " << i;
    }
}

TEST(Copy, CopiesEveryLengthAndAlignment) {
  for (const KernelTable* table : runnable_tables()) {
    SCOPED_TRACE(table->instruction_set);
    for (std::size_t bytes = 0; bytes <= 1300; bytes += 1 + bytes / 258)
      for (std::size_t offset = 0; offset < 64; offset += 1 + bytes % 7) {
        expect_copies(table->plain_copy, bytes, offset);
        expect_copies(table->streaming_copy, bytes, offset);
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
