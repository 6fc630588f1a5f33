#include "ops/data/data_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "tests/ops/data/message_of.h"

namespace horo::ops {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

/// Sample i has the values i and -i and the label i % 10; a sample may be slow or throw.
class CountingDataset : public LabelledImages {
 public:
  std::size_t size() const override { return 103; }
  Shape sample_shape() const override { return {1, 1, 2}; }
  std::size_t class_count() const override { return 10; }
  std::int32_t copy_sample(std::size_t index, std::span<float> values) const override {
    check_copy(index, values.size());
    ++copies;
    if (index == broken_sample) throw std::runtime_error("sample " + std::to_string(index));
    // The delays differ, so batches are not completed in the order of their start.
    if (slowness > 0us) std::this_thread::sleep_for(slowness * (index * 7919 % 4));
    values[0] = static_cast<float>(index);
    values[1] = -static_cast<float>(index);
    return static_cast<std::int32_t>(index % 10);
  }

  std::size_t broken_sample = ~std::size_t{0};
  std::chrono::microseconds slowness{0};
  mutable std::atomic<int> copies = 0;
};

GlobalSampler sampler_of(const Dataset& dataset, int rank = 0, int ranks = 1) {
  return GlobalSampler({.dataset_size = dataset.size(), .global_batch = 8, .seed = 2}, rank, ranks);
}

void expect_content(const Batch& batch, const GlobalSampler& sampler) {
  const auto samples = batch.sample_indices();
  EXPECT_TRUE(std::ranges::equal(samples, sampler.samples(batch.where)));
  ASSERT_EQ(batch.inputs.shape(), (Shape{samples.size(), 1, 1, 2}));
  ASSERT_EQ(batch.targets.shape(), Shape{samples.size()});
  for (std::size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ(batch.inputs.values()[2 * i], static_cast<float>(samples[i]));
    EXPECT_EQ(batch.inputs.values()[2 * i + 1], -static_cast<float>(samples[i]));
    EXPECT_EQ(batch.targets.values<std::int32_t>()[i], static_cast<std::int32_t>(samples[i] % 10));
  }
}

TEST(DataLoader, OrderDoesNotDependOnThreads) {
  CountingDataset dataset;
  dataset.slowness = 20us;
  const auto sampler = sampler_of(dataset, 1, 2);
  for (const std::size_t threads : {0, 1, 2, 4}) {
    for (const std::size_t prefetch : {1, 3, 8}) {
      DataLoader loader(dataset, sampler, 5, 30, {.threads = threads, .prefetch = prefetch});
      for (std::uint64_t step = 5; step < 30; ++step) {
        const auto batch = loader.next();
        ASSERT_TRUE(batch);
        EXPECT_EQ(batch->where, sampler.locate(step));
        expect_content(*batch, sampler);
      }
      EXPECT_FALSE(loader.next());
      EXPECT_FALSE(loader.next());
    }
  }
}

TEST(DataLoader, AugmentsEverySampleByItsEpochAndIndex) {
  const CountingDataset dataset;
  const Augmentation augmentation = [](std::span<float> values, std::uint64_t epoch,
                                       std::uint64_t sample) {
    EXPECT_EQ(values[0], static_cast<float>(sample));
    values[0] = static_cast<float>(1000 * (epoch + 1) + sample);
  };
  for (const int ranks : {1, 3})
    for (const std::size_t threads : {0, 2}) {
      const auto sampler = sampler_of(dataset, ranks - 1, ranks);
      DataLoader loader(dataset, sampler, 0, 20,
                        {.threads = threads, .augmentation = augmentation});
      while (const auto batch = loader.next())
        for (std::size_t i = 0; i < batch->rows(); ++i)
          EXPECT_EQ(
              batch->inputs.values()[2 * i],
              static_cast<float>(1000 * (batch->where.epoch + 1) + batch->sample_indices()[i]));
    }
}

TEST(DataLoader, StopsInTheMiddleOfAnEpoch) {
  CountingDataset dataset;
  dataset.slowness = 100us;
  const auto sampler = sampler_of(dataset);
  for (const std::size_t threads : {0, 1, 2, 4}) {
    for (int taken = 0; taken < 5; ++taken) {
      DataLoader loader(dataset, sampler, 0, 1000000, {.threads = threads, .prefetch = 4});
      for (int i = 0; i < taken; ++i) ASSERT_TRUE(loader.next());
    }
  }
}

TEST(DataLoader, RunsAheadByThePrefetchDepthOnly) {
  CountingDataset dataset;
  const auto sampler = sampler_of(dataset);
  DataLoader loader(dataset, sampler, 0, 1000, {.threads = 2, .prefetch = 3});
  while (dataset.copies < 3 * 8) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(dataset.copies, 3 * 8);
  ASSERT_TRUE(loader.next());
  while (dataset.copies < 4 * 8) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(dataset.copies, 4 * 8);
}

TEST(DataLoader, RethrowsAtFailedBatch) {
  CountingDataset dataset;
  const auto sampler = sampler_of(dataset);
  dataset.broken_sample = sampler.samples({0, 6})[3];
  for (const std::size_t threads : {0, 1, 2, 4}) {
    DataLoader loader(dataset, sampler, 0, 12, {.threads = threads, .prefetch = 4});
    for (int step = 0; step < 6; ++step) ASSERT_TRUE(loader.next());
    EXPECT_THROW(loader.next(), std::runtime_error);
    EXPECT_FALSE(loader.next());
  }
}

TEST(DataLoader, GivesEmptyBatchesToRanksWithoutSamples) {
  const CountingDataset dataset;
  const GlobalSampler sampler({.dataset_size = dataset.size(),
                               .global_batch = 50,
                               .is_shuffled = false,
                               .keeps_partial_batch = true},
                              3, 4);
  DataLoader loader(dataset, sampler, 0, sampler.steps_per_epoch(), {});
  std::vector<std::size_t> counts;
  while (auto batch = loader.next()) {
    counts.push_back(batch->rows());
    expect_content(*batch, sampler);
  }
  EXPECT_THAT(counts, testing::ElementsAre(12, 12, 0));
}

TEST(DataLoader, MeasuresTheWait) {
  CountingDataset dataset;
  dataset.slowness = 2ms;
  const auto sampler = sampler_of(dataset);
  DataLoader slow(dataset, sampler, 0, 2, {.threads = 1});
  while (slow.next()) continue;
  EXPECT_GT(slow.waited(), 4ms);

  DataLoader ahead(dataset, sampler, 0, 1, {.threads = 1});
  std::this_thread::sleep_for(300ms);
  ASSERT_TRUE(ahead.next());
  EXPECT_LT(ahead.waited(), 100ms);
}

TEST(DataLoader, RefusesWrongOptions) {
  const CountingDataset dataset;
  const auto sampler = sampler_of(dataset);
  EXPECT_THAT(message_of([&] { DataLoader(dataset, sampler, 0, 1, {.prefetch = 0}); }),
              HasSubstr("prefetch"));
  const GlobalSampler other({.dataset_size = 7, .global_batch = 7}, 0, 1);
  EXPECT_THAT(message_of([&] { DataLoader(dataset, other, 0, 1); }), HasSubstr("7 samples"));
}

/// Sample i is the tokens i, i + 1, i + 2, and its targets are the halves of these.
class TokenDataset : public Dataset {
 public:
  std::size_t size() const override { return 21; }
  SampleForm input() const override { return {{3}, DataType::kInt32}; }
  SampleForm target() const override { return {{3}, DataType::kFloat32}; }
  void read(std::size_t index, std::span<std::byte> input,
            std::span<std::byte> target) const override {
    for (std::size_t i = 0; i < 3; ++i) {
      reinterpret_cast<std::int32_t*>(input.data())[i] = static_cast<std::int32_t>(index + i);
      reinterpret_cast<float*>(target.data())[i] = 0.5f * static_cast<float>(index + i);
    }
  }
};

TEST(DataLoader, LoadsInputsAndTargetsOfAnyForm) {
  const TokenDataset dataset;
  const auto sampler = sampler_of(dataset);
  DataLoader loader(dataset, sampler, 0, 2);
  while (const auto batch = loader.next()) {
    ASSERT_EQ(batch->inputs.shape(), (Shape{8, 3}));
    ASSERT_EQ(batch->targets.shape(), (Shape{8, 3}));
    const Batch rows = rows_of(*batch, 5, 2);
    ASSERT_EQ(rows.inputs.shape(), (Shape{2, 3}));
    for (std::size_t i = 0; i < 24; ++i) {
      const std::int32_t token = static_cast<std::int32_t>(batch->sample_indices()[i / 3] + i % 3);
      EXPECT_EQ(batch->inputs.values<std::int32_t>()[i], token);
      EXPECT_EQ(batch->targets.values()[i], 0.5f * static_cast<float>(token));
    }
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(rows.inputs.values<std::int32_t>()[i],
                batch->inputs.values<std::int32_t>()[15 + i]);
      EXPECT_EQ(rows.targets.values()[i], batch->targets.values()[15 + i]);
      EXPECT_EQ(rows.sample_indices()[i / 3], batch->sample_indices()[5 + i / 3]);
    }
  }
}

TEST(DataLoader, RejectsAugmentationOfTokens) {
  const TokenDataset dataset;
  const auto sampler = sampler_of(dataset);
  EXPECT_THAT(message_of([&] {
                DataLoader(dataset, sampler, 0, 1, {.augmentation = [](auto, auto, auto) {}});
              }),
              HasSubstr("those of the data set are int32"));
}

}  // namespace
}  // namespace horo::ops
