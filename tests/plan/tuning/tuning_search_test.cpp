#include "horo/plan/tuning/tuning_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "horo/base/error.h"

namespace horo::plan {
namespace {

using Cost = std::function<double(const TuningSearch&, int step)>;

// The values of the current choice.
std::vector<std::size_t> values_of(const TuningSearch& search) {
  std::vector<std::size_t> values;
  for (std::size_t a = 0; a < search.axes().size(); ++a)
    values.push_back(search.axes()[a].values[search.choice()[a]]);
  return values;
}

void run(TuningSearch& search, const Cost& cost) {
  for (int step = 0; !search.is_finished(); ++step) {
    ASSERT_LT(step, 1000);
    search.note_step(cost(search, step));
  }
}

const Axis kBuckets{"bucket_bytes", {1, 2, 4, 8, 16, 32}, 2};
const Axis kSegments{"segment_bytes", {64, 128, 256, 512}, 1};

double distance(const TuningSearch& search, double bucket, double segment) {
  const auto values = values_of(search);
  return 1 + std::abs(std::log2(static_cast<double>(values[0]) / bucket)) +
         std::abs(std::log2(static_cast<double>(values[1]) / segment));
}

TEST(TuningSearch, FindsMinimumInBothDirections) {
  for (const auto& [bucket, segment] :
       {std::pair{16, 64}, std::pair{1, 512}, std::pair{32, 256}, std::pair{4, 64}}) {
    TuningSearch search({kBuckets, kSegments}, {.most_steps = 200});
    run(search,
        [&, b = bucket, s = segment](const TuningSearch& now, int) { return distance(now, b, s); });
    EXPECT_EQ(values_of(search), (std::vector<std::size_t>{static_cast<std::size_t>(bucket),
                                                           static_cast<std::size_t>(segment)}));
    EXPECT_TRUE(search.has_improved());
    EXPECT_LT(search.best_seconds(), search.start_seconds());
  }
}

TEST(TuningSearch, KeepsStartIfNothingIsFaster) {
  TuningSearch search({kBuckets, kSegments}, {});
  run(search, [](const TuningSearch& now, int) { return distance(now, 4, 128); });
  EXPECT_EQ(search.choice(), (Choice{2, 1}));
  EXPECT_FALSE(search.has_improved());
}

TEST(TuningSearch, KeepsStartIfGainIsOnlyDrift) {
  // The machine becomes faster, so later trials seem better.
  TuningSearch search({kBuckets, kSegments}, {});
  run(search, [](const TuningSearch&, int step) { return step < 24 ? 10.0 - step * 0.1 : 7.0; });
  EXPECT_EQ(search.choice(), (Choice{2, 1}));
  EXPECT_FALSE(search.has_improved());
}

TEST(TuningSearch, IgnoresDriftOfMachineSpeed) {
  // The search finds an improvement before the final comparison, in which only the time of the
  // trials matters.
  for (const double drift : {-0.02, -0.01, 0.0, 0.01, 0.02}) {
    int steps_of_climb = 0;
    TuningSearch search({kBuckets}, {});
    run(search, [&](const TuningSearch& now, int step) {
      if (now.trials() < 4) steps_of_climb = step + 1;
      const bool climbs = now.trials() < 4;
      return climbs ? 10.0 - static_cast<double>(now.choice()[0])
                    : 5.0 * std::exp(drift * (step - steps_of_climb));
    });
    EXPECT_FALSE(search.has_improved()) << drift;
    EXPECT_EQ(search.choice(), Choice{2}) << drift;
  }
}

TEST(TuningSearch, CountsTrialsAndScores) {
  TuningSearch search({kBuckets}, {.steps_per_trial = 3, .uncounted = 1, .most_steps = 60});
  for (const double seconds : {9.0, 3.0, 2.0}) search.note_step(seconds);
  EXPECT_EQ(search.trials(), 1);
  EXPECT_EQ(search.latest_score(), 3.0);  // the upper median of the steps after the first
  for (const double seconds : {1.0, 1.0}) search.note_step(seconds);
  EXPECT_EQ(search.trials(), 1);
  search.note_step(1.5);
  EXPECT_EQ(search.trials(), 2);
  EXPECT_EQ(search.latest_score(), 1.5);
}

TEST(TuningSearch, IgnoresFirstStepsOfTrial) {
  // The first step is the last one with the previous choice.
  TuningSearch search({kBuckets}, {});
  for (const double seconds : {900.0, 800.0, 3.0, 9.0, 4.0}) search.note_step(seconds);
  EXPECT_EQ(search.trials(), 1);
  EXPECT_EQ(search.latest_score(), 4.0);
}

TEST(TuningSearch, IgnoresSmallGains) {
  TuningSearch search({kBuckets}, {.least_gain = 0.03});
  run(search, [](const TuningSearch& now, int) { return now.choice()[0] == 3 ? 0.98 : 1.0; });
  EXPECT_FALSE(search.has_improved());
}

TEST(TuningSearch, ToleratesOneOutlierPerTrial) {
  TuningSearch search({kBuckets}, {.most_steps = 200});
  run(search, [](const TuningSearch& now, int step) {
    return step % 5 == 2 ? 50.0 : std::abs(static_cast<double>(now.choice()[0]) - 4) + 1;
  });
  EXPECT_EQ(search.choice(), Choice{4});
}

TEST(TuningSearch, RespectsStepLimit) {
  for (int most = 8; most <= 80; most += 3) {
    std::set<Choice> tried;
    TuningSearch search({kBuckets, kSegments}, {.most_steps = most});
    run(search, [&](const TuningSearch& now, int) {
      tried.insert(now.choice());
      return distance(now, 32, 512);
    });
    EXPECT_LE(search.steps(), most);
    EXPECT_GE(tried.size(), most >= 30 ? 2u : 1u) << most;
  }
}

TEST(TuningSearch, DependsOnRecordedSecondsOnly) {
  const Cost cost = [](const TuningSearch& now, int step) {
    return distance(now, 16, 64) * (1 + 0.2 * std::sin(step));
  };
  TuningSearch a({kBuckets, kSegments}, {}), b({kBuckets, kSegments}, {});
  for (int step = 0; !a.is_finished(); ++step) {
    EXPECT_EQ(a.choice(), b.choice());
    const double seconds = cost(a, step);
    a.note_step(seconds);
    b.note_step(seconds);
  }
  EXPECT_TRUE(b.is_finished());
  EXPECT_EQ(a.choice(), b.choice());
}

TEST(TuningSearch, EndsEarlyWithoutAxes) {
  TuningSearch search({}, {});
  run(search, [](const TuningSearch&, int) { return 1.0; });
  EXPECT_EQ(search.steps(), 5);
}

TEST(TuningSearch, RejectsInvalidAxes) {
  EXPECT_THROW(TuningSearch({Axis{"x", {}, 0}}, {}), InvalidArgument);
  EXPECT_THROW(TuningSearch({Axis{"x", {1}, 1}}, {}), InvalidArgument);
  EXPECT_THROW(TuningSearch({}, {.steps_per_trial = 2}), InvalidArgument);
  EXPECT_THROW(TuningSearch({}, {.uncounted = -1}), InvalidArgument);
}

}  // namespace
}  // namespace horo::plan
