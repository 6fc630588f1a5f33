#include "horo/coordinator/negotiation/fusion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace horo::coordinator {
namespace {

using ::testing::HasSubstr;

const Topology kTwo = make_topology(0, {"a", "b"}, {"a", "b"});

Contribution agree(const std::string& name, std::size_t count, Kind kind = Kind::kAllreduce,
                   DataType type = DataType::kFloat32, ReduceOp op = ReduceOp::kSum) {
  return contribution_of(0, {name, kind, type, op, 0, Shape{count}});
}

std::vector<Response> fuse(const std::vector<Contribution>& complete, std::size_t bucket_bytes,
                           const ResponseCache& cache) {
  return coordinator::fuse(complete, bucket_bytes, cache, kTwo);
}

std::vector<std::string> names(const Response& response) {
  std::vector<std::string> result;
  for (const auto& tensor : response.tensors) result.push_back(tensor.name);
  return result;
}

TEST(Fusion, FillsBucketsUpToTheLimit) {
  const auto responses =
      fuse({agree("a", 10), agree("b", 10), agree("c", 5), agree("d", 100), agree("e", 1)}, 100,
           ResponseCache(0));
  ASSERT_EQ(responses.size(), 3u);
  EXPECT_EQ(names(responses[0]), (std::vector<std::string>{"a", "b", "c"}));  // 100 bytes exactly
  EXPECT_EQ(names(responses[1]), (std::vector<std::string>{"d"}));  // alone, above the target
  EXPECT_EQ(names(responses[2]), (std::vector<std::string>{"e"}));
}

TEST(Fusion, BucketHoldsAtMost4096Tensors) {
  std::vector<Contribution> complete;
  for (int i = 0; i < 10000; ++i) complete.push_back(agree(std::to_string(i), 1));
  const auto responses = fuse(complete, std::size_t{1} << 30, ResponseCache(0));
  ASSERT_EQ(responses.size(), 3u);
  EXPECT_EQ(responses[0].tensors.size(), 4096u);
  EXPECT_EQ(responses[2].tensors.size(), 10000u - 2 * 4096u);
  EXPECT_EQ(responses[2].tensors.front().name, "8192");
}

TEST(Fusion, FusesOnlyEqualTypesAndOperations) {
  const auto responses = fuse({agree("a", 1), agree("b", 1, Kind::kAllreduce, DataType::kFloat64),
                               agree("c", 1, Kind::kAllreduce, DataType::kFloat64, ReduceOp::kMax),
                               agree("d", 1, Kind::kBroadcast), agree("e", 1, Kind::kBroadcast)},
                              1000, ResponseCache(0));
  EXPECT_EQ(responses.size(), 5u);
}

TEST(Fusion, FusesDifferentScaleFactors) {
  Request scaled = agree("b", 1).request();
  scaled.scale = {0.5, 3};
  const auto responses = fuse({agree("a", 1), contribution_of(0, scaled)}, 1000, ResponseCache(0));
  ASSERT_EQ(responses.size(), 1u);
  EXPECT_EQ(names(responses[0]), (std::vector<std::string>{"a", "b"}));
}

TEST(Fusion, FusesTensorsOfOneQueueWithEqualFactors) {
  const auto on_device = [](const char* name, std::uint8_t queue, double before) {
    Request request = agree(name, 1).request();
    request.device_queue = queue;
    request.scale.before = before;
    return contribution_of(0, request);
  };
  const auto responses =
      fuse({agree("a", 1), on_device("b", 1, 1), on_device("c", 1, 2), on_device("d", 2, 1),
            agree("e", 1), on_device("f", 1, 1), on_device("g", 1, 2)},
           1000, ResponseCache(0));
  ASSERT_EQ(responses.size(), 4u);
  EXPECT_EQ(names(responses[0]), (std::vector<std::string>{"a", "e"}));
  EXPECT_EQ(names(responses[1]), (std::vector<std::string>{"b", "f"}));
  EXPECT_EQ(names(responses[2]), (std::vector<std::string>{"c", "g"}));
  EXPECT_EQ(names(responses[3]), (std::vector<std::string>{"d"}));
}

TEST(Fusion, FusesAcrossOtherOperations) {
  const auto responses = fuse({agree("a", 1), agree("b", 1, Kind::kBroadcast),
                               agree("c", 1, Kind::kAllreduce, DataType::kFloat64), agree("d", 1),
                               agree("e", 1, Kind::kAllreduce, DataType::kFloat64)},
                              1000, ResponseCache(0));
  ASSERT_EQ(responses.size(), 3u);
  EXPECT_EQ(names(responses[0]), (std::vector<std::string>{"a", "d"}));
  EXPECT_EQ(names(responses[2]), (std::vector<std::string>{"c", "e"}));
}

TEST(Fusion, DoesNotFuseGroups) {
  Request group{"g", Kind::kAllreduce};
  group.members = {{"g", DataType::kFloat32, {1}}, {"h", DataType::kFloat32, {1}}};
  const auto responses =
      fuse({agree("a", 1), contribution_of(0, group), agree("b", 1)}, 1000, ResponseCache(0));
  ASSERT_EQ(responses.size(), 2u);
  EXPECT_EQ(names(responses[0]), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(names(responses[1]), (std::vector<std::string>{"g"}));
}

TEST(Fusion, MismatchIsSeparateError) {
  Contribution wrong = agree("b", 1);
  merge(wrong, std::vector{0}, contribution_of(1, agree("b", 2).request()), std::vector{1});
  const auto responses = fuse({agree("a", 1), wrong, agree("c", 1)}, 1000, ResponseCache(0));
  ASSERT_EQ(responses.size(), 2u);
  EXPECT_EQ(responses[1].error, ErrorKind::kMismatch);
  EXPECT_EQ(responses[1].error_text,
            "tensor 'b': rank 0 (host a) submitted allreduce (sum) of float32 [1], rank 1 (host b) "
            "submitted allreduce (sum) of float32 [2]: the shapes differ");
}

TEST(Fusion, OnlyElementwiseAllreducesAllowJoinedRanks) {
  Contribution broadcast = agree("w", 3, Kind::kBroadcast);
  Contribution adasum = agree("g", 3, Kind::kAllreduce, DataType::kFloat32, ReduceOp::kAdasum);
  Contribution sum = agree("s", 3);
  for (Contribution* each : {&broadcast, &adasum, &sum}) each->absent = {1};
  const auto responses = fuse({broadcast, adasum, sum, agree("t", 3)}, 1000, ResponseCache(0));
  ASSERT_EQ(responses.size(), 4u);
  EXPECT_THAT(responses[0].error_text,
              HasSubstr("tensor 'w': rank 1 (host b) has joined, but broadcast from rank 0 of "
                        "float32 [3] requires every rank"));
  EXPECT_EQ(responses[0].error, ErrorKind::kMismatch);
  EXPECT_EQ(responses[1].error, ErrorKind::kMismatch);
  EXPECT_EQ(responses[2].error, ErrorKind::kNone);
  EXPECT_EQ(responses[2].absent, std::vector{1});
  EXPECT_EQ(responses[2].tensors[0].request, sum.request());      // rank 1 must know its shape
  EXPECT_EQ(names(responses[3]), std::vector<std::string>{"t"});  // all ranks: another bucket
}

TEST(Fusion, AllgatherHasRowsOfAllRanks) {
  Contribution gather = agree("g", 3, Kind::kAllgather);
  merge(gather, std::vector{0}, contribution_of(1, agree("g", 0, Kind::kAllgather).request()),
        std::vector{1});
  const auto responses = fuse({gather}, 1000, ResponseCache(0));
  EXPECT_EQ(responses[0].rows_of, (std::vector<std::uint64_t>{3, 0}));
}

TEST(Fusion, AlltoallHasSplitsOfAllRanks) {
  Request first = agree("a", 3, Kind::kAlltoall).request();
  Request second = first;
  first.splits = {1, 2};
  second.splits = {3, 0};
  Contribution exchange = contribution_of(1, second);
  merge(exchange, std::vector{1}, contribution_of(0, first), std::vector{0});
  const auto responses = fuse({exchange}, 1000, ResponseCache(0));
  EXPECT_EQ(responses[0].rows_of, (std::vector<std::uint64_t>{1, 2, 3, 0}));
}

TEST(Fusion, NamesCachedTensorsByNumber) {
  ResponseCache cache(4);
  const Request request = agree("a", 1).request();
  cache.note(request, {}, 1);
  const CacheId id = *cache.find(request);
  const auto responses = fuse({contribution_of(id, cache.at(id)), agree("b", 1)}, 1000, cache);
  ASSERT_EQ(responses.size(), 1u);
  EXPECT_EQ(responses[0].tensors[0].cached, id);
  EXPECT_EQ(responses[0].tensors[0].name, "");
  EXPECT_EQ(responses[0].tensors[1].name, "b");
  // After an eviction, the response contains the name.
  const auto agreed = cache.at(id);
  cache.note(agree("a", 2).request(), {}, 2);
  EXPECT_EQ(fuse({contribution_of(id, agreed)}, 1000, cache)[0].tensors[0].name, "a");
}

TEST(Fusion, KeepsEveryTensorOnceInOrder) {
  std::mt19937 random(7);
  for (int round = 0; round < 1000; ++round) {
    const std::size_t target = random() % 2000 + 1;
    std::vector<Contribution> agreements;
    for (unsigned i = random() % 60; i-- > 0;)
      agreements.push_back(agree("t" + std::to_string(agreements.size()), random() % 400));
    std::size_t next = 0;
    for (const Response& response : fuse(agreements, target, ResponseCache(0))) {
      std::size_t bytes = 0;
      for (const std::string& name : names(response)) {
        EXPECT_EQ(name, "t" + std::to_string(next));
        bytes += agreements[next++].request().shape.count() * 4;
      }
      EXPECT_TRUE(bytes <= target || response.tensors.size() == 1);
    }
    EXPECT_EQ(next, agreements.size());
  }
}

}  // namespace
}  // namespace horo::coordinator
