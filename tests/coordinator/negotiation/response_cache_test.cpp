#include "horo/coordinator/negotiation/response_cache.h"

#include <gtest/gtest.h>

#include "horo/base/error.h"

namespace horo::coordinator {
namespace {

Request allreduce(const std::string& name, std::size_t count, ReduceOp op = ReduceOp::kSum,
                  DataType type = DataType::kFloat32) {
  return {name, Kind::kAllreduce, type, op, 0, Shape{count}};
}

TEST(ResponseCache, FindsOnlyAnEqualRequest) {
  ResponseCache cache(8);
  EXPECT_FALSE(cache.find(allreduce("x", 5)));
  cache.note(allreduce("x", 5), {}, 1);
  ASSERT_TRUE(cache.find(allreduce("x", 5)));
  EXPECT_FALSE(cache.find(allreduce("x", 6)));
  EXPECT_FALSE(cache.find(allreduce("x", 5, ReduceOp::kMax)));
  EXPECT_FALSE(cache.find(allreduce("x", 5, ReduceOp::kSum, DataType::kFloat64)));
  EXPECT_FALSE(cache.find(allreduce("y", 5)));
  Request scaled = allreduce("x", 5);
  scaled.scale.after = 0.5;
  EXPECT_FALSE(cache.find(scaled));
  cache.note(scaled, {}, 2);
  EXPECT_TRUE(cache.find(scaled));
  EXPECT_FALSE(cache.find(allreduce("x", 5)));
}

TEST(ResponseCache, EqualMessagesGiveEqualNumbers) {
  ResponseCache a(3);
  ResponseCache b(3);
  const char* names[] = {"p", "q", "p", "r", "s", "q", "t", "p"};
  std::uint64_t message = 0;
  for (const char* name : names) {
    ++message;
    a.note(allreduce(name, 7), {}, message);
    b.note(allreduce(name, 7), {}, message);
    for (const char* other : names)
      EXPECT_EQ(a.find(allreduce(other, 7)), b.find(allreduce(other, 7)));
  }
}

TEST(ResponseCache, EvictsTheLeastRecentlyUsed) {
  ResponseCache cache(2);
  cache.note(allreduce("a", 1), {}, 1);
  cache.note(allreduce("b", 1), {}, 2);
  cache.note(allreduce("a", 1), {}, 3);  // b is now the oldest
  cache.note(allreduce("c", 1), {}, 4);
  EXPECT_TRUE(cache.find(allreduce("a", 1)));
  EXPECT_FALSE(cache.find(allreduce("b", 1)));
  EXPECT_TRUE(cache.find(allreduce("c", 1)));
  EXPECT_EQ(cache.size(), 2u);
}

TEST(ResponseCache, KeepsEvictedNumbersUntilRetired) {
  ResponseCache cache(1);
  cache.note(allreduce("a", 1), {}, 1);
  const CacheId id = *cache.find(allreduce("a", 1));
  cache.note(allreduce("b", 1), {}, 2);
  EXPECT_EQ(cache.at(id)->request.name, "a");
  cache.retire(1);
  EXPECT_EQ(cache.at(id)->request.name, "a");
  cache.retire(2);
  EXPECT_THROW((void)cache.at(id), CommunicationError);
}

TEST(ResponseCache, ReplacesChangedRequest) {
  ResponseCache cache(4);
  cache.note(allreduce("a", 1), {}, 1);
  const CacheId old = *cache.find(allreduce("a", 1));
  cache.note(allreduce("a", 2), {}, 2);
  EXPECT_FALSE(cache.find(allreduce("a", 1)));
  EXPECT_NE(*cache.find(allreduce("a", 2)), old);
  EXPECT_EQ(cache.size(), 1u);
}

Request allgather(std::size_t rows) {
  return {"g", Kind::kAllgather, DataType::kFloat32, ReduceOp::kSum, 0, Shape{rows, 3}};
}

TEST(ResponseCache, ReplacesEntryWhenRowsOfAnotherRankChange) {
  ResponseCache mine(4);
  ResponseCache others(4);
  mine.note(allgather(5), {5, 7}, 1);
  others.note(allgather(7), {5, 7}, 1);
  const CacheId first = *mine.find(allgather(5));
  EXPECT_EQ(others.find(allgather(7)), first);
  mine.note(allgather(5), {5, 8}, 2);
  others.note(allgather(8), {5, 8}, 2);
  EXPECT_NE(*mine.find(allgather(5)), first);
  EXPECT_EQ(others.find(allgather(8)), mine.find(allgather(5)));
  EXPECT_EQ(mine.at(*mine.find(allgather(5)))->rows_from(1)[0], 8u);
}

TEST(ResponseCache, ChangingAllgatherEvictsNoOther) {
  ResponseCache cache(3);
  cache.note(allreduce("a", 1), {}, 1);
  cache.note(allreduce("b", 1), {}, 2);
  for (std::uint64_t k = 0; k < 100; ++k) cache.note(allgather(k), {k, 3}, 3 + k);
  EXPECT_TRUE(cache.find(allreduce("a", 1)));
  EXPECT_TRUE(cache.find(allreduce("b", 1)));
}

TEST(ResponseCache, DoesNotCacheLongListsOfRows) {
  ResponseCache cache(3);
  cache.note(allgather(1), {1, 1}, 1);
  cache.note(allgather(1), std::vector<std::uint64_t>(ResponseCache::kMostRows + 1, 1), 2);
  EXPECT_FALSE(cache.find(allgather(1)));
}

TEST(ResponseCache, CapacityZeroCachesNothing) {
  ResponseCache cache(0);
  cache.note(allreduce("a", 1), {}, 1);
  EXPECT_FALSE(cache.find(allreduce("a", 1)));
}

}  // namespace
}  // namespace horo::coordinator
