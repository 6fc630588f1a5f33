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
    EXPECT_EQ(part.size(), sampler.local_count(where.step));
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
                                     .keeps_partial_batch = true};
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
  const SamplerOptions options{.dataset_size = 12, .global_batch = 7, .keeps_partial_batch = true};
  std::vector<std::size_t> full;
  for (int rank = 0; rank < 3; ++rank)
    full.push_back(GlobalSampler(options, rank, 3).local_count(0));
  EXPECT_THAT(full, testing::ElementsAre(3, 2, 2));
  std::vector<std::size_t> partial;
  for (int rank = 0; rank < 8; ++rank)
    partial.push_back(GlobalSampler(options, rank, 8).local_count(1));
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

TEST(GlobalSampler, RefusesOptionsWithoutAStep) {
  EXPECT_THAT(message_of([] { GlobalSampler({.dataset_size = 10, .global_batch = 11}, 0, 1); }),
              HasSubstr("choose a smaller global batch"));
  EXPECT_THAT(message_of([] { GlobalSampler({.dataset_size = 10, .global_batch = 0}, 0, 1); }),
              HasSubstr("at least 1"));
  EXPECT_THAT(message_of([] { GlobalSampler({.dataset_size = 10}, 3, 3); }), HasSubstr("rank 3"));
}

}  // namespace
}  // namespace horo::ops
