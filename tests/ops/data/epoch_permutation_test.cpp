#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "horo/base/error.h"
#include "ops/data/global_sampler.h"

namespace horo::ops {
namespace {

std::vector<std::uint64_t> table(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch) {
  const EpochPermutation permutation(size, seed, epoch);
  std::vector<std::uint64_t> values(size);
  for (std::uint64_t i = 0; i < size; ++i) values[i] = permutation[i];
  return values;
}

void expect_bijection(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<bool> seen(size);
  for (const auto value : table(size, seed, epoch)) {
    ASSERT_LT(value, size);
    ASSERT_FALSE(seen[value]) << "size " << size << ", value " << value;
    seen[value] = true;
  }
}

TEST(EpochPermutation, IsABijectionForEverySize) {
  for (std::uint64_t size = 0; size <= 300; ++size)
    for (const std::uint64_t seed : {0, 1, 99}) expect_bijection(size, seed, size % 7);
  for (const std::uint64_t size : {1023, 1024, 1025, 4095, 4097, 10000, 60000, 65536, 65537})
    expect_bijection(size, 3, 5);
}

TEST(EpochPermutation, DiffersBySeedAndEpochAndRepeats) {
  const auto first = table(1000, 1, 0);
  EXPECT_EQ(first, table(1000, 1, 0));
  for (const auto& other : {table(1000, 1, 1), table(1000, 2, 0), table(1000, 0, 1)}) {
    std::size_t equal = 0;
    for (std::size_t i = 0; i < first.size(); ++i) equal += first[i] == other[i] ? 1 : 0;
    EXPECT_LT(equal, 12u) << "1 is expected of independent permutations";
  }
}

TEST(EpochPermutation, SpreadsNeighboursOverTheWholeRange) {
  const auto values = table(60000, 1, 0);
  double distance = 0;
  for (std::size_t i = 0; i + 1 < values.size(); ++i)
    distance += std::abs(static_cast<double>(values[i]) - static_cast<double>(values[i + 1]));
  // Two independent positions are a third of the range apart on average.
  EXPECT_NEAR(distance / 60000 / 59999, 1.0 / 3, 0.01);
}

TEST(EpochPermutation, EverySampleIsFirstInSomeEpoch) {
  std::vector<int> count(10);
  for (std::uint64_t epoch = 0; epoch < 10000; ++epoch) ++count[EpochPermutation(10, 1, epoch)[0]];
  for (const int times : count) EXPECT_NEAR(times, 1000, 150);
}

TEST(EpochPermutation, WorksForHugeSizesWithoutATable) {
  const EpochPermutation permutation(std::uint64_t{1} << 40, 1, 0);
  EXPECT_LT(permutation[123456789], std::uint64_t{1} << 40);
  EXPECT_NE(permutation[0], permutation[1]);
}

TEST(EpochPermutation, RefusesAPositionPastTheEnd) {
  const EpochPermutation permutation(5, 1, 0);
  EXPECT_THROW(permutation[5], InvalidArgument);
}

}  // namespace
}  // namespace horo::ops
