#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "horo/base/topology.h"

namespace horo {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

std::vector<int> strided(int first, int count, int stride) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * stride);
  return ranks;
}

TEST(SetName, ListsAFewRanks) {
  EXPECT_EQ(name_of_set({3}), "{3}");
  EXPECT_EQ(name_of_set({0, 2, 17}), "{0, 2, 17}");
  EXPECT_EQ(name_of_set({0, 2}, 2), "{0, 2}#2");
}

TEST(SetName, ListsManyRanksInRuns) {
  EXPECT_EQ(name_of_set(strided(0, 64, 1)), "{0-63}");
  EXPECT_EQ(name_of_set(strided(1, 64, 8), 3), "{1-505:8}#3");
  std::vector<int> ranks = strided(0, 30, 1);
  for (const int rank : {40, 50, 61, 70, 72, 74}) ranks.push_back(rank);
  EXPECT_EQ(name_of_set(ranks), "{0-29, 40, 50, 61, 70-74:2}");
}

TEST(SetName, DistinguishesIrregularRanks) {
  std::vector<int> ranks, others;
  for (int i = 0; i < 61; ++i) ranks.push_back(i * i);
  others = ranks;
  ++others.back();
  EXPECT_NE(name_of_set(ranks), name_of_set(others));
  EXPECT_LE(name_of_set(ranks, 12).size(), 64u);
  EXPECT_FALSE(members_of(name_of_set(ranks)));
}

TEST(SetName, MembersRoundTrip) {
  for (const auto& ranks : {std::vector<int>{3}, {0, 2, 17}, strided(0, 64, 1), strided(5, 99, 7)})
    for (const int number : {1, 2, 40})
      EXPECT_THAT(members_of(name_of_set(ranks, number)), Optional(ranks));
  EXPECT_THAT(members_of("{0-4:2, 9}"), Optional(ElementsAre(0, 2, 4, 9)));
}

TEST(SetName, OtherTextsHaveNoMembers) {
  for (const char* text :
       {"", "{", "{}", "0, 2", "{0, }", "{0 2}", "{0, 2", "{-1}", "{4-2}", "{0-4:0}",
        "{0-2000000000}", "{0}#", "{0}#2x", "{0, 2}}", "{61 ranks, 6f1c0a95}"})
    EXPECT_FALSE(members_of(text)) << text;
}

}  // namespace
}  // namespace horo
