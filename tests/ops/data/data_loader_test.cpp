#include "ops/data/data_loader.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

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
    if (broken_samples.contains(index)) throw std::runtime_error("damaged");
    // The delays differ, so batches are not completed in the order of their start.
    if (slowness > 0us) std::this_thread::sleep_for(slowness * (index * 7919 % 4));
    values[0] = static_cast<float>(index);
    values[1] = -static_cast<float>(index);
    return static_cast<std::int32_t>(index % 10);
  }

  std::string name_of(std::size_t index) const override {
    return "file_" + std::to_string(index) + ".bin";
  }

  std::set<std::size_t> broken_samples;
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
  const std::uint64_t broken = sampler.samples({0, 6})[3];
  dataset.broken_samples = {broken};
  for (const std::size_t threads : {0, 1, 2, 4}) {
    DataLoader loader(dataset, sampler, 0, 12, {.threads = threads, .prefetch = 4});
    for (int step = 0; step < 6; ++step) ASSERT_TRUE(loader.next());
    try {
      (void)loader.next();
      ADD_FAILURE() << "no error";
    } catch (const SampleError& error) {
      EXPECT_EQ(error.sample(), broken);
      EXPECT_EQ(error.what(),
                fmt::format("sample {0} (file_{0}.bin) cannot be read: damaged", broken));
    }
    EXPECT_FALSE(loader.next());
  }
}

// The rows that can be read are those of a loader without broken samples, in the same order.
TEST(DataLoader, SkipsBadSamplesAndNamesEachOnce) {
  CountingDataset dataset;
  const CountingDataset whole;
  dataset.broken_samples = {3, 50, 51, 102};
  for (const std::size_t threads : {0, 3}) {
    std::uint64_t bad = 0;
    ::testing::internal::CaptureStderr();
    for (int rank = 0; rank < 2; ++rank) {
      const GlobalSampler sampler(
          {.dataset_size = 103, .global_batch = 20, .last_batch = LastBatch::kPad}, rank, 2);
      const std::uint64_t steps = 3 * sampler.steps_per_epoch();
      DataLoader loader(dataset, sampler, 0, steps,
                        {.threads = threads, .bad_samples = BadSamples::kSkip});
      DataLoader expected(whole, sampler, 0, steps);
      while (const auto batch = loader.next()) {
        const auto good = expected.next();
        EXPECT_EQ(batch->rows(), 10u);
        std::vector<std::uint64_t> rows;
        for (const std::uint64_t sample : good->sample_indices().subspan(0, good->counted_rows()))
          if (!dataset.broken_samples.contains(sample)) rows.push_back(sample);
        ASSERT_EQ(batch->counted_rows(), rows.size());
        for (std::size_t i = 0; i < rows.size(); ++i) {
          EXPECT_EQ(batch->sample_indices()[i], rows[i]);
          EXPECT_EQ(batch->inputs.values()[2 * i + 1], -static_cast<float>(rows[i]));
        }
        for (const float value : batch->inputs.values()) EXPECT_LE(std::abs(value), 102);
      }
      EXPECT_GE(loader.report().reading.bad_samples, 1u);
      bad += loader.report().reading.bad_samples;
    }
    EXPECT_GE(bad, 3 * 4u);  // in every epoch, and perhaps as padding
    const std::string log = ::testing::internal::GetCapturedStderr();
    for (const std::size_t sample : dataset.broken_samples) {
      const std::string name = fmt::format("sample {0} (file_{0}.bin)", sample);
      const std::size_t first = log.find(name);
      EXPECT_NE(first, std::string::npos) << log;
    }
    EXPECT_LE(std::ranges::count(log, '\n'), 2 * 4) << log;  // at most once on each rank
  }
}

TEST(DataLoader, OnlyErrorsOfSamplesAreSkipped) {
  class Exhausted : public CountingDataset {
    std::int32_t copy_sample(std::size_t, std::span<float>) const override {
      throw std::bad_alloc();
    }
  } dataset;
  const auto sampler = sampler_of(dataset);
  DataLoader loader(dataset, sampler, 0, 2, {.bad_samples = BadSamples::kSkip});
  EXPECT_THROW(loader.next(), std::bad_alloc);
}

TEST(DataLoader, ContinuesAtASavedPosition) {
  const CountingDataset dataset;
  const GlobalSampler saved(
      {.dataset_size = 103, .global_batch = 8, .seed = 2, .last_batch = LastBatch::kPad}, 0, 2);
  const GlobalSampler restored(saved.options(), 2, 3);
  DataLoader loader(dataset, saved, 0, 40, {.threads = 2});
  for (int step = 0; step < 17; ++step) ASSERT_TRUE(loader.next());
  const SamplePosition position = loader.position();
  EXPECT_EQ(position, (SamplePosition{1, 4 * 8}));
  DataLoader continued(dataset, restored, restored.count_at(position), 40);
  for (int step = 17; step < 40; ++step) {
    const auto batch = continued.next();
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->where, loader.next()->where);
    expect_content(*batch, restored);
  }
}

TEST(DataLoader, RestartsAtAnyPoint) {
  CountingDataset dataset;
  dataset.slowness = 20us;
  const auto sampler = sampler_of(dataset);
  for (const std::size_t threads : {0, 1, 3}) {
    DataLoader loader(dataset, sampler, 0, 0, {.threads = threads, .prefetch = 4});
    EXPECT_FALSE(loader.next());
    for (std::uint64_t first = 0; first < 12; first += 3) {
      loader.restart(first, first + 8);
      for (std::uint64_t step = first; step < first + 6; ++step) {
        const auto batch = loader.next();
        ASSERT_TRUE(batch);
        EXPECT_EQ(batch->where, sampler.locate(step));
        expect_content(*batch, sampler);
      }
    }
    EXPECT_EQ(loader.report().batches, 4 * 6u);
  }
}

TEST(PrefetchDepth, GrowsOnlyIfAllBatchesWereLoadedBefore) {
  PrefetchDepth depth(2, 7);
  for (int i = 0; i < 3; ++i) depth.note_take(0);  // loading is too slow on average
  EXPECT_EQ(depth.batches(), 2u);
  depth.note_take(2);
  depth.note_take(1);
  EXPECT_EQ(depth.batches(), 2u);
  depth.note_take(0);
  EXPECT_EQ(depth.batches(), 4u);
  depth.note_take(0);
  EXPECT_EQ(depth.batches(), 4u);
  depth.note_take(4);
  depth.note_take(0);
  EXPECT_EQ(depth.batches(), 7u);
  depth.note_take(7);
  depth.note_take(0);
  EXPECT_EQ(depth.batches(), 7u);
  EXPECT_EQ(PrefetchDepth(3, 0).batches(), 3u);
}

TEST(DataLoader, LoadsMoreAheadForABurstyConsumer) {
  CountingDataset dataset;
  dataset.slowness = 20us;
  const auto sampler = sampler_of(dataset);
  const std::size_t batch_bytes = 8 * (2 * sizeof(float) + sizeof(std::int32_t) + 8);
  DataLoader loader(dataset, sampler, 0, 100000,
                    {.threads = 1, .prefetch_bytes = 5 * batch_bytes + 1});
  EXPECT_EQ(loader.report().prefetch, 2u);
  int taken = 0;
  // The sixth batch of a burst is usually not loaded, unless this thread is slow.
  while (loader.report().prefetch < 5) {
    const int ahead = taken + static_cast<int>(loader.report().prefetch);
    while (dataset.copies < 8 * ahead) std::this_thread::yield();
    for (; taken <= ahead; ++taken) ASSERT_TRUE(loader.next());
  }
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(loader.next());
  EXPECT_EQ(loader.report().prefetch, 5u);
}

TEST(DataLoader, ReportsTheWorkOfItsThreads) {
  const CountingDataset dataset;
  const auto sampler = sampler_of(dataset);
  for (const std::size_t threads : {0, 2}) {
    DataLoader loader(dataset, sampler, 0, 12, {.threads = threads, .prefetch = 3});
    while (loader.next()) continue;
    const LoaderReport report = loader.report();
    EXPECT_EQ(report.batches, 12u);
    EXPECT_EQ(report.threads, threads);
    EXPECT_EQ(report.prefetch, 3u);
    EXPECT_GT(report.waited, 0ns);
    EXPECT_GT(report.reading.time, 0ns);
    EXPECT_GT(report.reading.cpu_time, 0ns);
    EXPECT_EQ(report.reading.bad_samples, 0u);
  }
}

TEST(DataLoader, GivesEmptyBatchesToRanksWithoutSamples) {
  const CountingDataset dataset;
  const GlobalSampler sampler({.dataset_size = dataset.size(),
                               .global_batch = 50,
                               .is_shuffled = false,
                               .last_batch = LastBatch::kPartial},
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

}  // namespace
}  // namespace horo::ops
