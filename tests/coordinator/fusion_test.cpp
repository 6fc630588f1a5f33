#include "horo/coordinator/fusion.h"

#include <gtest/gtest.h>

#include <random>

namespace horo::coordinator {
namespace {

Agreement agree(const std::string& name, std::size_t count, Kind kind = Kind::kAllreduce,
                DataType type = DataType::kFloat32, ReduceOp op = ReduceOp::kSum) {
  const Request request{name, kind, type, op, 0, Shape{count}};
  return {{request, request}, {}};
}

std::vector<std::string> names(const Response& response) {
  std::vector<std::string> result;
  for (const auto& tensor : response.tensors) result.push_back(tensor.name);
  return result;
}

TEST(Fusion, NeighboursShareABucketUpToTheTarget) {
  const auto responses =
      fuse({agree("a", 10), agree("b", 10), agree("c", 5), agree("d", 100), agree("e", 1)}, 100,
           ResponseCache(0));
  ASSERT_EQ(responses.size(), 3u);
  EXPECT_EQ(names(responses[0]), (std::vector<std::string>{"a", "b", "c"}));  // 100 bytes exactly
  EXPECT_EQ(names(responses[1]), (std::vector<std::string>{"d"}));  // alone, above the target
  EXPECT_EQ(names(responses[2]), (std::vector<std::string>{"e"}));
}

TEST(Fusion, OnlyAllreducesOfOneTypeAndOperationShare) {
  const auto responses = fuse({agree("a", 1), agree("b", 1, Kind::kAllreduce, DataType::kFloat64),
                               agree("c", 1, Kind::kAllreduce, DataType::kFloat64, ReduceOp::kMax),
                               agree("d", 1, Kind::kBroadcast), agree("e", 1, Kind::kBroadcast)},
                              1000, ResponseCache(0));
  EXPECT_EQ(responses.size(), 5u);
}

TEST(Fusion, AMismatchIsAnErrorOfItsOwn) {
  Agreement wrong = agree("b", 1);
  wrong.mismatch = "tensor 'b': ...";
  const auto responses = fuse({agree("a", 1), wrong, agree("c", 1)}, 1000, ResponseCache(0));
  ASSERT_EQ(responses.size(), 3u);
  EXPECT_EQ(responses[1].error, ErrorKind::kMismatch);
  EXPECT_EQ(responses[1].error_text, "tensor 'b': ...");
}

TEST(Fusion, AllgatherCarriesEveryRanksRows) {
  Agreement gather = agree("g", 3, Kind::kAllgather);
  gather.requests[1].shape = Shape{0};
  const auto responses = fuse({gather}, 1000, ResponseCache(0));
  EXPECT_EQ(responses[0].rows_of, (std::vector<std::uint64_t>{3, 0}));
}

TEST(Fusion, AlltoallCarriesEveryRanksSplits) {
  Agreement exchange = agree("a", 3, Kind::kAlltoall);
  exchange.requests[0].splits = {1, 2};
  exchange.requests[1].splits = {3, 0};
  const auto responses = fuse({exchange}, 1000, ResponseCache(0));
  EXPECT_EQ(responses[0].rows_of, (std::vector<std::uint64_t>{1, 2, 3, 0}));
}

TEST(Fusion, CachedTensorsGoByNumber) {
  ResponseCache cache(4);
  cache.note(agree("a", 1).requests[0], 1);
  const auto responses = fuse({agree("a", 1), agree("b", 1)}, 1000, cache);
  ASSERT_EQ(responses.size(), 1u);
  EXPECT_NE(responses[0].tensors[0].cached, 0u);
  EXPECT_EQ(responses[0].tensors[0].name, "");
  EXPECT_EQ(responses[0].tensors[1].name, "b");
}

TEST(Fusion, RandomListsKeepEveryTensorOnceAndInOrder) {
  std::mt19937 random(7);
  for (int round = 0; round < 1000; ++round) {
    const std::size_t target = random() % 2000 + 1;
    std::vector<Agreement> agreements;
    for (unsigned i = random() % 60; i-- > 0;)
      agreements.push_back(agree("t" + std::to_string(agreements.size()), random() % 400));
    std::size_t next = 0;
    for (const Response& response : fuse(agreements, target, ResponseCache(0))) {
      std::size_t bytes = 0;
      for (const std::string& name : names(response)) {
        EXPECT_EQ(name, "t" + std::to_string(next));
        bytes += agreements[next++].requests[0].shape.count() * 4;
      }
      EXPECT_TRUE(bytes <= target || response.tensors.size() == 1);
    }
    EXPECT_EQ(next, agreements.size());
  }
}

}  // namespace
}  // namespace horo::coordinator
