#include "ops/train/update/local_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "horo/base/error.h"

namespace horo::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::size_t elements_of(const std::vector<std::size_t>& counts, const ParameterRange& range) {
  return std::accumulate(counts.begin() + static_cast<std::ptrdiff_t>(range.first),
                         counts.begin() + static_cast<std::ptrdiff_t>(range.end), std::size_t{0});
}

TEST(Fragments, TileTheParameters) {
  const std::vector<std::size_t> all = {7, 1, 0, 12, 3, 3, 40, 1, 9, 2, 2, 5};
  for (std::size_t size = 1; size <= all.size(); ++size) {
    const std::vector<std::size_t> counts(all.begin(),
                                          all.begin() + static_cast<std::ptrdiff_t>(size));
    std::size_t previous_largest = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    for (std::size_t fragments = 1; fragments <= size; ++fragments) {
      const std::vector<ParameterRange> ranges = split_into_fragments(counts, fragments);
      ASSERT_EQ(ranges.size(), fragments);
      std::size_t next = 0, largest = 0;
      for (const ParameterRange& range : ranges) {
        EXPECT_EQ(range.first, next);
        EXPECT_LT(range.first, range.end);
        next = range.end;
        largest = std::max(largest, elements_of(counts, range));
      }
      EXPECT_EQ(next, size);
      EXPECT_LE(largest, previous_largest);
      previous_largest = largest;
    }
    EXPECT_EQ(previous_largest, *std::ranges::max_element(counts));
  }
}

TEST(Fragments, HaveAboutEqualSizes) {
  EXPECT_THAT(split_into_fragments(std::vector<std::size_t>{4, 1, 1, 2, 4}, 3),
              ElementsAre(ParameterRange{0, 1}, ParameterRange{1, 4}, ParameterRange{4, 5}));
  EXPECT_THAT(split_into_fragments(std::vector<std::size_t>{100, 1, 1, 1}, 3),
              ElementsAre(ParameterRange{0, 1}, ParameterRange{1, 3}, ParameterRange{3, 4}));
}

TEST(Fragments, AreExchangedAtDifferentSteps) {
  const auto steps_of = [](const LocalSteps& steps, std::size_t fragment) {
    std::vector<std::uint64_t> all;
    for (std::uint64_t done = 1; done <= 20; ++done)
      if (is_exchanged_after(steps, fragment, done)) all.push_back(done);
    return all;
  };
  EXPECT_THAT(steps_of(diloco(10), 0), ElementsAre(10, 20));
  EXPECT_THAT(steps_of(diloco(10, 3), 0), ElementsAre(3, 13));
  EXPECT_THAT(steps_of(diloco(10, 3), 1), ElementsAre(6, 16));
  EXPECT_THAT(steps_of(diloco(10, 3), 2), ElementsAre(10, 20));
  for (std::size_t count = 1; count <= 9; ++count)
    for (std::size_t fragments = 1; fragments <= count; ++fragments)
      for (std::uint64_t done = 1; done <= 2 * count; ++done) {
        std::size_t started = 0;
        for (std::size_t f = 0; f < fragments; ++f)
          started += is_exchanged_after(diloco(count, fragments), f, done) ? 1 : 0;
        EXPECT_LE(started, 1u);
        EXPECT_EQ(started, fragments == count ? 1u : started);
      }
}

TEST(LocalSteps, RefusesValuesOutOfRange) {
  const auto refusal_of_steps = [](const LocalSteps& steps) -> std::string {
    try {
      check(steps, 6);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(refusal_of_steps(LocalSteps{.overlap = 3}), "none");
  EXPECT_EQ(refusal_of_steps(local_sgd(1)), "none");
  EXPECT_EQ(refusal_of_steps(diloco(8, 6, 7)), "none");
  EXPECT_THAT(refusal_of_steps(diloco(8, 7)), HasSubstr("choose 1 to 6 fragments"));
  EXPECT_THAT(refusal_of_steps(diloco(4, 5)), HasSubstr("choose 1 to 4 fragments"));
  EXPECT_THAT(refusal_of_steps(diloco(8, 0)), HasSubstr("0 fragments"));
  EXPECT_THAT(refusal_of_steps(diloco(8, 1, 8)), HasSubstr("an overlap of 8 steps"));
  EXPECT_THAT(refusal_of_steps({.count = 2, .mixing = 1}), HasSubstr("mixing is 1"));
  EXPECT_THAT(refusal_of_steps({.count = 2, .outer_rate = 0}), HasSubstr("outer_rate is 0"));
  EXPECT_THAT(refusal_of_steps({.count = 2, .outer_momentum = 1}),
              HasSubstr("outer_momentum is 1"));
}

}  // namespace
}  // namespace horo::ops
