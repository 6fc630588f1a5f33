#include "ops/data/pipeline/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <string>

#include "ops/data/datasets/digits_dataset.h"
#include "ops/data/pipeline/sample_pipeline.h"
#include "tests/ops/data/message_of.h"

namespace horo::ops {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// 0 to size - 1, plus 1000 * epoch. `produced` counts the items.
Pipeline<int> numbers(int size, std::atomic<int>* produced = nullptr) {
  return Pipeline<int>([=](std::uint64_t epoch) {
    return [=, i = 0]() mutable -> std::optional<int> {
      if (i == size) return std::nullopt;
      if (produced != nullptr) ++*produced;
      return i++ + 1000 * static_cast<int>(epoch);
    };
  });
}

template <typename T>
std::vector<T> all_of(const Pipeline<T>& pipeline, std::uint64_t epoch = 0) {
  std::vector<T> items;
  const auto next = pipeline.start(epoch);
  while (auto item = next()) items.push_back(*std::move(item));
  return items;
}

TEST(Pipeline, MapsFiltersAndBatches) {
  const auto words = numbers(10).filter([](int x) { return x % 3 != 0; }).map([](int x) {
    return std::to_string(x);
  });
  EXPECT_THAT(all_of(words), ElementsAre("1", "2", "4", "5", "7", "8"));
  EXPECT_THAT(all_of(words.batch(4)),
              ElementsAre(ElementsAre("1", "2", "4", "5"), ElementsAre("7", "8")));
  EXPECT_THAT(all_of(words.batch(4, true)), ElementsAre(ElementsAre("1", "2", "4", "5")));
  EXPECT_THAT(all_of(numbers(0).batch(4)), ElementsAre());
}

TEST(Pipeline, MovesItemsThatCannotBeCopied) {
  const auto boxes = numbers(9)
                         .map([](int x) { return std::make_unique<int>(x); })
                         .filter([](const auto& x) { return *x % 2 == 0; })
                         .shuffle(2, 1)
                         .prefetch(2)
                         .batch(2);
  std::vector<int> values;
  for (const auto& batch : all_of(boxes))
    for (const auto& box : batch) values.push_back(*box);
  EXPECT_THAT(values, testing::UnorderedElementsAre(0, 2, 4, 6, 8));
}

TEST(Pipeline, ShufflesWithinTheBufferBySeedAndEpoch) {
  const auto shuffled = numbers(200).shuffle(20, 7);
  const auto items = all_of(shuffled);
  EXPECT_EQ(items, all_of(shuffled));
  EXPECT_FALSE(std::ranges::is_sorted(items));
  for (std::size_t i = 0; i < items.size(); ++i) EXPECT_LT(items[i], static_cast<int>(i) + 20);
  auto sorted = items;
  std::ranges::sort(sorted);
  EXPECT_EQ(sorted, all_of(numbers(200)));
  auto later = all_of(shuffled, 3);
  for (int& item : later) item -= 3000;
  EXPECT_NE(later, items);
  EXPECT_NE(all_of(numbers(200).shuffle(20, 8)), items);
  EXPECT_EQ(all_of(numbers(30).shuffle(1, 8)), all_of(numbers(30)));
}

TEST(Pipeline, ShardsMakeTheSameGlobalBatches) {
  const auto items = numbers(36).shuffle(10, 2);
  const auto all = all_of(items);
  for (const std::uint64_t ranks : {1, 2, 3, 4}) {
    std::vector<std::vector<int>> global(3);
    for (std::uint64_t rank = 0; rank < ranks; ++rank) {
      const auto batches = all_of(items.shard(rank, ranks).batch(12 / ranks));
      ASSERT_EQ(batches.size(), 3u);
      for (std::size_t b = 0; b < 3; ++b)
        global[b].insert(global[b].end(), batches[b].begin(), batches[b].end());
    }
    for (std::size_t b = 0; b < 3; ++b)
      EXPECT_TRUE(std::is_permutation(global[b].begin(), global[b].end(),
                                      all.begin() + 12 * static_cast<int>(b),
                                      all.begin() + 12 * static_cast<int>(b + 1)));
  }
  EXPECT_THAT(all_of(numbers(7).shard(2, 3)), ElementsAre(2, 5));
}

TEST(Pipeline, SkipContinuesAtASavedPosition) {
  const auto items = numbers(50).shuffle(8, 3);
  const auto all = all_of(items, 2);
  for (const std::uint64_t count : {0, 1, 20, 50, 60}) {
    const auto rest = all_of(items.skip(count), 2);
    const std::size_t first = std::min<std::size_t>(count, all.size());
    EXPECT_TRUE(
        std::equal(rest.begin(), rest.end(), all.begin() + static_cast<int>(first), all.end()));
  }
}

TEST(Pipeline, CacheReadsTheSourceOnce) {
  std::atomic<int> produced = 0;
  const auto cached = numbers(5, &produced).cache();
  const auto abandoned = cached.start(0);
  ASSERT_TRUE(abandoned());
  EXPECT_EQ(all_of(cached), all_of(numbers(5)));
  EXPECT_EQ(produced, 1 + 5);
  EXPECT_EQ(all_of(cached), all_of(numbers(5)));
  EXPECT_EQ(all_of(cached.map([](int x) { return 2 * x; })), (std::vector{0, 2, 4, 6, 8}));
  EXPECT_EQ(produced, 1 + 5);
}

TEST(Pipeline, PrefetchRunsAheadByItsDepthOnly) {
  std::atomic<int> produced = 0;
  const auto ahead = numbers(1000, &produced).prefetch(3);
  const auto next = ahead.start(0);
  ASSERT_TRUE(next());
  while (produced < 4) std::this_thread::yield();
  EXPECT_LE(produced, 5);  // three in the queue, and one that waits for room
  for (int i = 1; i < 1000; ++i) EXPECT_EQ(next(), i);
  EXPECT_FALSE(next());
  EXPECT_FALSE(next());
  (void)ahead.start(1)();  // the pass ends in the middle
}

TEST(Pipeline, ErrorsLeaveTheCallThatNeedsTheItem) {
  for (const bool is_prefetched : {false, true}) {
    auto items = numbers(10).map([](int x) {
      if (x == 4) throw Error("item 4 is damaged");
      return x;
    });
    if (is_prefetched) items = items.prefetch(20);
    const auto next = items.start(0);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(next(), i);
    EXPECT_THROW((void)next(), Error);
  }
}

TEST(Pipeline, RejectsSizesOfZero) {
  EXPECT_THAT(message_of([] { numbers(3).batch(0); }), HasSubstr("a batch of 0"));
  EXPECT_THAT(message_of([] { numbers(3).shuffle(0, 1); }), HasSubstr("buffer of 0"));
  EXPECT_THAT(message_of([] { numbers(3).prefetch(0); }), HasSubstr("0 items"));
  EXPECT_THAT(message_of([] { numbers(3).shard(2, 2); }), HasSubstr("below the number of ranks"));
}

TEST(SamplePipeline, MakesBatchesOfADataset) {
  const DigitsDataset digits({.size = 30});
  const auto batches = samples_of(digits).shuffle(10, 1).batch(8).map(
      [&](const auto& samples) { return batch_of(samples, digits.input(), digits.target()); });
  std::vector<std::uint64_t> seen;
  std::vector<float> image(digits.sample_shape().count());
  for (const Batch& batch : all_of(batches)) {
    ASSERT_EQ(batch.inputs.shape(), (Shape{batch.rows(), 1, 28, 28}));
    for (std::size_t row = 0; row < batch.rows(); ++row) {
      const std::uint64_t index = batch.sample_indices()[row];
      seen.push_back(index);
      EXPECT_EQ(batch.targets.values<std::int32_t>()[row], digits.copy_sample(index, image));
      EXPECT_TRUE(std::ranges::equal(
          batch.inputs.values().subspan(row * image.size(), image.size()), image));
    }
  }
  std::ranges::sort(seen);
  std::vector<std::uint64_t> expected(30);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(seen, expected);
  EXPECT_THAT(message_of([&] {
                batch_of({{4, {}, {}}}, digits.input(), digits.target());
              }),
              HasSubstr("sample 4: its input has 0 bytes"));
}

}  // namespace
}  // namespace horo::ops
