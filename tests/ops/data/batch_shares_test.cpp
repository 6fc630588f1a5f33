#include "ops/data/batch_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <thread>

#include "horo/base/error.h"
#include "ops/data/data_loader.h"
#include "ops/data/global_sampler.h"
#include "tests/ops/data/message_of.h"

namespace horo::ops {
namespace {

using testing::ElementsAre;

TEST(BatchShares, AreProportionalToTheWeights) {
  EXPECT_THAT(BatchShares({2, 1}).counts(12), ElementsAre(8, 4));
  EXPECT_THAT(BatchShares({2, 1}).counts(10), ElementsAre(7, 3));
  EXPECT_THAT(BatchShares({1, 1, 2, 0.5}).counts(9), ElementsAre(2, 2, 4, 1));
  EXPECT_THAT(BatchShares({1e308, 1e308}).counts(5), ElementsAre(3, 2));
}

TEST(BatchShares, OfEqualWeightsAreTheEqualParts) {
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (std::size_t rows = 0; rows <= 40; ++rows)
      for (int rank = 0; rank < ranks; ++rank) {
        const BatchShares weighted(std::vector<double>(static_cast<std::size_t>(ranks), 0.3));
        const auto part = weighted.part(rank, rows), expected = BatchShares(ranks).part(rank, rows);
        ASSERT_EQ(part.first, expected.first);
        ASSERT_EQ(part.count, expected.count);
      }
}

TEST(BatchShares, TileTheRowsAndKeepTheLeastCount) {
  const BatchShares shares({1, 1000, 3, 1e-12}, 2);
  for (std::size_t rows = 0; rows <= 200; ++rows) {
    std::uint64_t next = 0;
    for (int rank = 0; rank < 4; ++rank) {
      const auto part = shares.part(rank, rows);
      ASSERT_EQ(part.first, next);
      if (rows >= 8) {
        ASSERT_GE(part.count, 2u);
      }
      next += part.count;
    }
    ASSERT_EQ(next, rows);
  }
  EXPECT_THAT(shares.counts(100), ElementsAre(2, 94, 2, 2));
}

TEST(BatchShares, RefuseWeightsThatAreNotPositive) {
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THAT(message_of([&] {
                  (void)BatchShares({1, bad});
                }),
                testing::HasSubstr("the batch weight of rank 1 is"));
}

// Samples whose input is their index.
class Indices : public Dataset {
 public:
  std::size_t size() const override { return 240; }
  SampleForm input() const override { return {{1}}; }
  SampleForm target() const override { return {{1}, DataType::kInt32}; }
  void read(std::size_t index, std::span<std::byte> input, std::span<std::byte>) const override {
    *reinterpret_cast<float*>(input.data()) = static_cast<float>(index);
  }
};

// The shares change while the loaders have read ahead to different steps. Together the ranks still
// read the global batch of each step, in order.
TEST(BatchShares, OfALoaderChangeAtAnAgreedStep) {
  const Indices samples;
  const SamplerOptions options{.dataset_size = samples.size(), .global_batch = 12, .seed = 4};
  const GlobalSampler alone(options, 0, 1);
  for (const std::size_t threads : {std::size_t{0}, std::size_t{1}, std::size_t{3}}) {
    GlobalSampler first(options, 0, 2), second(options, 1, 2);
    DataLoader a(samples, first, 0, 40, {.threads = threads, .prefetch = 2});
    DataLoader b(samples, second, 0, 40, {.threads = threads, .prefetch = 7});
    for (std::uint64_t step = 0; step < 40; ++step) {
      if (step % 10 == 5) {
        const std::uint64_t from = std::max(a.hold(), b.hold());
        EXPECT_GE(from, step);
        EXPECT_LE(from, step + 7);
        const BatchShares shares({static_cast<double>(step), 5});
        first.set_shares(from, shares);
        second.set_shares(from, shares);
        a.release();
        b.release();
      }
      std::vector<std::uint64_t> all;
      for (DataLoader* loader : {&a, &b}) {
        const Batch batch = loader->next().value();
        const auto own = batch.sample_indices();
        all.insert(all.end(), own.begin(), own.end());
      }
      ASSERT_EQ(all, alone.samples(alone.locate(step))) << "step " << step;
    }
    EXPECT_EQ(first.local_count(first.locate(60)), 11u);  // 35 to 5, of 12
    EXPECT_EQ(second.local_count(second.locate(60)), 1u);
  }
}

TEST(BatchShares, OfASamplerNeedOneWeightPerRank) {
  GlobalSampler sampler({.dataset_size = 10, .global_batch = 4}, 0, 2);
  EXPECT_THAT(message_of([&] {
                sampler.set_shares(0, BatchShares({1, 2, 3}));
              }),
              testing::HasSubstr("3 batch weights for 2 ranks; give one weight per rank"));
}

}  // namespace
}  // namespace horo::ops
