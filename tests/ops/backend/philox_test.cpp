#include "ops/backend/philox.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

namespace horo::ops {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers that the authors of Philox publish with their implementation.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(0, 0, 0), (Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(philox(~0ull, ~0ull, ~0ull),
            (Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(philox(0x299f31d0a4093822ull, 0x0370734413198a2eull, 0x85a308d3243f6a88ull),
            (Words{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Mix, EveryInputBitMatters) {
  const std::uint64_t base = mix(5, 9);
  std::set<std::uint64_t> seen{base};
  for (int bit = 0; bit < 64; ++bit) {
    for (const std::uint64_t changed :
         {mix(5ull ^ (1ull << bit), 9), mix(5, 9ull ^ (1ull << bit))}) {
      seen.insert(changed);
      const int flipped = std::popcount(base ^ changed);
      EXPECT_GT(flipped, 10) << bit;
      EXPECT_LT(flipped, 54) << bit;
    }
  }
  EXPECT_EQ(seen.size(), 129u);
  EXPECT_NE(mix(5, 9), mix(9, 5));
}

}  // namespace
}  // namespace horo::ops
