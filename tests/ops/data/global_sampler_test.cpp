#include "ops/data/global_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/ops/data/message_of.h"

namespace horo::ops {
namespace {

using testing::HasSubstr;

/// The samples of one step over all ranks, in rank order.
std::vector<std::uint64_t> step_of_job(const SamplerOptions& options, int ranks,
                                       const EpochStep& where) {
  std::vector<std::uint64_t> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const GlobalSampler sampler(options, rank, ranks);
    const auto part = sampler.samples(where);
    EXPECT_EQ(part.size(), sampler.local_count(where));
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(GlobalSampler, OrderDoesNotDependOnTheNumberOfRanks) {
  const SamplerOptions options{.dataset_size = 1003, .global_batch = 72, .seed = 4};
  const GlobalSampler alone(options, 0, 1);
  EXPECT_EQ(alone.steps_per_epoch(), 13u);
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch)
      for (std::uint64_t step = 0; step < alone.steps_per_epoch(); ++step)
        EXPECT_EQ(step_of_job(options, ranks, {epoch, step}), alone.samples({epoch, step}));
}

TEST(GlobalSampler, VisitsEverySampleOncePerEpoch) {
  for (const bool is_shuffled : {false, true}) {
    for (std::size_t size = 1; size <= 40; ++size) {
      for (const std::size_t batch : {1, 3, 8, 50}) {
        const SamplerOptions options{.dataset_size = size,
                                     .global_batch = batch,
                                     .is_shuffled = is_shuffled,
                                     .last_batch = LastBatch::kPartial};
        for (int ranks = 1; ranks <= 9; ++ranks) {
          std::vector<std::uint64_t> visited;
          const auto steps = GlobalSampler(options, 0, ranks).steps_per_epoch();
          for (std::uint64_t step = 0; step < steps; ++step) {
            const auto samples = step_of_job(options, ranks, {0, step});
            visited.insert(visited.end(), samples.begin(), samples.end());
          }
          std::sort(visited.begin(), visited.end());
          std::vector<std::uint64_t> expected(size);
          std::iota(expected.begin(), expected.end(), 0);
          ASSERT_EQ(visited, expected) << size << " samples, batch " << batch << ", " << ranks;
        }
      }
    }
  }
}

TEST(GlobalSampler, DropsTheRestOfAnEpochByDefault) {
  const GlobalSampler sampler({.dataset_size = 10, .global_batch = 4}, 0, 1);
  EXPECT_EQ(sampler.steps_per_epoch(), 2u);
  EXPECT_EQ(sampler.global_count(1), 4u);
  EXPECT_THAT(message_of([&] { (void)sampler.global_count(2); }),
              HasSubstr("step 2 of an epoch of 2"));
}

TEST(GlobalSampler, GivesTheFirstRanksOneSampleMore) {
  const SamplerOptions options{
      .dataset_size = 12, .global_batch = 7, .last_batch = LastBatch::kPartial};
  std::vector<std::size_t> full;
  for (int rank = 0; rank < 3; ++rank)
    full.push_back(GlobalSampler(options, rank, 3).local_count({0, 0}));
  EXPECT_THAT(full, testing::ElementsAre(3, 2, 2));
  std::vector<std::size_t> partial;
  for (int rank = 0; rank < 8; ++rank)
    partial.push_back(GlobalSampler(options, rank, 8).local_count({0, 1}));
  EXPECT_THAT(partial, testing::ElementsAre(1, 1, 1, 1, 1, 0, 0, 0));
}

TEST(GlobalSampler, ShufflesEachEpochDifferently) {
  const GlobalSampler shuffled({.dataset_size = 100, .global_batch = 100, .seed = 1}, 0, 1);
  EXPECT_NE(shuffled.samples({0, 0}), shuffled.samples({1, 0}));
  const GlobalSampler plain({.dataset_size = 100, .global_batch = 100, .is_shuffled = false}, 0, 1);
  EXPECT_TRUE(std::ranges::is_sorted(plain.samples({3, 0})));
}

TEST(GlobalSampler, NumbersStepsThroughTheEpochs) {
  const GlobalSampler sampler({.dataset_size = 10, .global_batch = 3}, 0, 1);
  for (std::uint64_t count = 0; count < 20; ++count)
    EXPECT_EQ(sampler.count_of(sampler.locate(count)), count);
  EXPECT_EQ(sampler.locate(7), (EpochStep{2, 1}));
}

TEST(GlobalSampler, PadsTheLastStepWithSamplesOfWeightZero) {
  for (std::size_t size = 1; size <= 20; ++size)
    for (const std::size_t batch : {1, 3, 8, 50})
      for (int ranks = 1; ranks <= 5; ++ranks) {
        const SamplerOptions options{
            .dataset_size = size, .global_batch = batch, .seed = 3, .last_batch = LastBatch::kPad};
        const GlobalSampler alone(options, 0, 1);
        std::vector<std::uint64_t> counted;
        for (std::uint64_t step = 0; step < alone.steps_per_epoch(); ++step) {
          std::size_t rows = 0, kept = 0;
          for (int rank = 0; rank < ranks; ++rank) {
            const GlobalSampler sampler(options, rank, ranks);
            const auto samples = sampler.samples({1, step});
            const std::size_t real = samples.size() - sampler.local_padding({1, step});
            ASSERT_EQ(samples.size(), sampler.local_count({1, step}));
            counted.insert(counted.end(), samples.begin(),
                           samples.begin() + static_cast<std::ptrdiff_t>(real));
            rows += samples.size();
            kept += real;
          }
          EXPECT_EQ(rows, batch);
          EXPECT_EQ(kept, alone.global_count(step));
        }
        std::ranges::sort(counted);
        std::vector<std::uint64_t> expected(size);
        std::iota(expected.begin(), expected.end(), 0);
        ASSERT_EQ(counted, expected) << size << " samples, batch " << batch << ", " << ranks;
      }
}

TEST(GlobalSampler, DrawsByWeightIndependentlyOfRanks) {
  std::vector<double> weights(30, 0.0);
  weights[4] = 1;
  weights[17] = 3;
  const SamplerOptions options{.dataset_size = 30,
                               .global_batch = 7,
                               .seed = 5,
                               .last_batch = LastBatch::kPartial,
                               .weights = std::make_shared<const WeightedDraw>(weights)};
  const GlobalSampler alone(options, 0, 1);
  std::size_t of_17 = 0, all = 0;
  for (std::uint64_t epoch = 0; epoch < 100; ++epoch)
    for (std::uint64_t step = 0; step < alone.steps_per_epoch(); ++step) {
      const auto samples = alone.samples({epoch, step});
      if (epoch < 3)
        for (const int ranks : {2, 3, 4}) {
          EXPECT_EQ(step_of_job(options, ranks, {epoch, step}), samples);
        }
      for (const std::uint64_t sample : samples) {
        ASSERT_TRUE(sample == 4 || sample == 17) << sample;
        of_17 += sample == 17 ? 1 : 0;
        ++all;
      }
    }
  EXPECT_EQ(all, 3000u);
  EXPECT_NEAR(static_cast<double>(of_17), 2250, 120);  // five standard deviations
  EXPECT_NE(alone.samples({0, 0}), alone.samples({1, 0}));
}

TEST(GlobalSampler, RejectsInvalidWeights) {
  const auto draw = [](std::vector<double> weights) { return WeightedDraw(weights); };
  EXPECT_THAT(message_of([&] { draw({1, -2}); }), HasSubstr("weight of sample 1 is -2"));
  EXPECT_THAT(message_of([&] { draw({0, 0}); }), HasSubstr("sum 0"));
  EXPECT_THAT(message_of([&] { draw({}); }), HasSubstr("sum 0"));
  const auto weights = std::make_shared<const WeightedDraw>(std::vector<double>{1, 2});
  EXPECT_THAT(message_of([&] { GlobalSampler({.dataset_size = 3, .weights = weights}, 0, 1); }),
              HasSubstr("2 weights for a data set of 3"));
  EXPECT_THAT(message_of([&] {
                GlobalSampler({.dataset_size = 2, .is_shuffled = false, .weights = weights}, 0, 1);
              }),
              HasSubstr("must be shuffled"));
}

TEST(GlobalSampler, PositionsRestoreTheExactSample) {
  for (const LastBatch last_batch : {LastBatch::kDrop, LastBatch::kPad}) {
    const SamplerOptions options{.dataset_size = 50, .global_batch = 12, .last_batch = last_batch};
    const GlobalSampler saved(options, 2, 3), restored(options, 0, 2);
    for (std::uint64_t count = 0; count < 15; ++count) {
      const SamplePosition position = saved.position(count);
      EXPECT_EQ(restored.count_at(position), count);
    }
  }
  const GlobalSampler other({.dataset_size = 50, .global_batch = 8}, 0, 1);
  EXPECT_EQ(other.count_at({1, 24}), 6u + 3);
  EXPECT_THAT(message_of([&] {
                (void)other.count_at({1, 12});
              }),
              HasSubstr("no step begins at sample 12 of epoch 1"));
  EXPECT_THAT(message_of([&] { (void)other.count_at({1, 48}); }), HasSubstr("an epoch 6 steps"));
}

TEST(GlobalSampler, RefusesOptionsWithoutAStep) {
  EXPECT_THAT(message_of([] { GlobalSampler({.dataset_size = 10, .global_batch = 11}, 0, 1); }),
              HasSubstr("choose a smaller global batch"));
  EXPECT_THAT(message_of([] { GlobalSampler({.dataset_size = 10, .global_batch = 0}, 0, 1); }),
              HasSubstr("at least 1"));
  EXPECT_THAT(message_of([] { GlobalSampler({.dataset_size = 10}, 3, 3); }), HasSubstr("rank 3"));
}

}  // namespace
}  // namespace horo::ops
