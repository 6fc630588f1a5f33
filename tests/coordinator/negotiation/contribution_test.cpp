#include "horo/coordinator/negotiation/contribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace horo::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Request request(std::size_t columns = 17, Kind kind = Kind::kAllreduce) {
  return {"x", kind, DataType::kFloat32, ReduceOp::kSum, 0, Shape{17, columns}};
}
Request gather_request(std::size_t rows, std::size_t columns = 3) {
  return {"x", Kind::kAllgather, DataType::kInt32, ReduceOp::kSum, 0, Shape{rows, columns}};
}

TEST(Contribution, MergesEqualRequests) {
  Contribution merged = contribution_of(4, request());
  merge(merged, std::vector{4}, contribution_of(2, request()), std::vector{2});
  ASSERT_EQ(merged.variants.size(), 1u);
  EXPECT_EQ(merged.variants[0].rank, 2);
}

// For any tree, the root finds the same pair as a comparison of rank 0 with each other rank in rank
// order.
TEST(Contribution, FindsFirstRankThatDiffersInAnyOrder) {
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    const int ranks = static_cast<int>(random() % 9) + 2;
    std::vector<std::size_t> columns;
    for (int r = 0; r < ranks; ++r) columns.push_back(random() % 3);
    struct Part {
      Contribution contribution;
      std::vector<int> ranks;
    };
    std::vector<Part> parts;
    for (int r = 0; r < ranks; ++r)
      parts.push_back({contribution_of(r, request(columns[static_cast<std::size_t>(r)])), {r}});
    while (parts.size() > 1) {
      std::shuffle(parts.begin(), parts.end(), random);
      Part last = std::move(parts.back());
      parts.pop_back();
      merge(parts[0].contribution, parts[0].ranks, std::move(last.contribution), last.ranks);
      parts[0].ranks.insert(parts[0].ranks.end(), last.ranks.begin(), last.ranks.end());
      std::ranges::sort(parts[0].ranks);
    }
    const auto& variants = parts[0].contribution.variants;
    EXPECT_EQ(variants[0].rank, 0);
    const auto other = std::ranges::find_if(columns, [&](auto c) { return c != columns[0]; });
    if (other == columns.end()) {
      EXPECT_EQ(variants.size(), 1u);
    } else {
      ASSERT_EQ(variants.size(), 2u);
      EXPECT_EQ(variants[1].rank, other - columns.begin());
    }
  }
}

TEST(Contribution, OrdersRowsByRank) {
  Contribution merged = contribution_of(3, gather_request(30));
  merge(merged, std::vector{3}, contribution_of(1, gather_request(10)), std::vector{1});
  merge(merged, std::vector{1, 3}, contribution_of(2, gather_request(20)), std::vector{2});
  EXPECT_EQ(merged.variants.size(), 1u);
  EXPECT_THAT(merged.rows, ElementsAre(Contribution::Rows{1, {10}}, Contribution::Rows{2, {20}},
                                       Contribution::Rows{3, {30}}));
}

TEST(Contribution, KeepsCommonCacheNumber) {
  const auto agreed = std::make_shared<const Agreed>(Agreed{request(), {}});
  Contribution merged = contribution_of(7, agreed);
  merge(merged, std::vector{0}, contribution_of(7, agreed), std::vector{1});
  EXPECT_EQ(merged.cached, 7u);
  EXPECT_THAT(merged.variants, IsEmpty());
  merge(merged, std::vector{0, 1}, contribution_of(2, request(18)), std::vector{2});
  EXPECT_EQ(merged.cached, 0u);
  ASSERT_EQ(merged.variants.size(), 2u);
  EXPECT_EQ(merged.variants[0], (Contribution::Variant{0, request()}));
  EXPECT_EQ(merged.variants[1], (Contribution::Variant{2, request(18)}));
}

TEST(Contribution, SpellsOutRowsOfEachRank) {
  const auto gathered = std::make_shared<const Agreed>(Agreed{gather_request(5), {5, 0, 9}});
  Contribution own = contribution_of(3, gathered);
  merge(own, std::vector{0, 2}, contribution_of(1, gather_request(4)), std::vector{1});
  EXPECT_EQ(own.variants.size(), 1u);
  EXPECT_THAT(own.rows, ElementsAre(Contribution::Rows{0, {5}}, Contribution::Rows{1, {4}},
                                    Contribution::Rows{2, {9}}));

  Request exchange = request(2, Kind::kAlltoall);
  exchange.shape = Shape{3, 2};
  exchange.splits = {1, 2};
  const auto agreed = std::make_shared<const Agreed>(Agreed{exchange, {1, 2, 3, 4}});
  Contribution all = contribution_of(9, agreed);
  spell_out(all, std::vector{0, 1});
  EXPECT_THAT(all.rows, ElementsAre(Contribution::Rows{0, {1, 2}}, Contribution::Rows{1, {3, 4}}));
  EXPECT_EQ(all.variants[0].request.shape, (Shape{3, 2}));
}

TEST(Contribution, DoesNotSpellOutAbsentRanks) {
  const auto agreed = std::make_shared<const Agreed>(Agreed{request(), {}});
  Contribution some = contribution_of(5, agreed);
  some.absent = {0};
  spell_out(some, std::vector{0, 1});
  EXPECT_EQ(some.variants[0].rank, 1);
}

TEST(Request, MismatchNamesTensorRanksDescriptionsAndField) {
  const auto text = [](const Request& a, const Request& b) {
    return describe_mismatch(a, "rank 0 (host a)", b, "rank 2 (host b)");
  };
  EXPECT_EQ(text(request(), request()), "");
  EXPECT_EQ(
      text(request(), request(18)),
      "tensor 'x': rank 0 (host a) submitted allreduce (sum) of float32 [17, 17], rank 2 (host "
      "b) submitted allreduce (sum) of float32 [17, 18]: the shapes differ");
  Request other = request();
  other.type = DataType::kInt32;
  EXPECT_THAT(text(request(), other),
              ::testing::HasSubstr("int32 [17, 17]: the element types differ"));
  other = request();
  other.op = ReduceOp::kMax;
  EXPECT_THAT(text(request(), other),
              ::testing::HasSubstr("(max) of float32 [17, 17]: the reduce operations differ"));
  const Request from_0 = request(17, Kind::kBroadcast);
  EXPECT_THAT(text(request(), from_0), ::testing::HasSubstr("the operations differ"));
  Request from_1 = from_0;
  from_1.root = 1;
  EXPECT_THAT(text(from_0, from_1),
              ::testing::HasSubstr("broadcast from rank 1 of float32 [17, 17]: the roots differ"));
}

TEST(Request, RowsMayDifferOtherDimensionsMayNot) {
  for (const Kind kind : {Kind::kAllgather, Kind::kAlltoall}) {
    const Request a = request(17, kind);
    Request b = a;
    b.shape = Shape{0, 17};
    b.splits = {0, 0, 0};
    EXPECT_TRUE(requests_agree(a, b));
    b.shape = Shape{17, 16};
    EXPECT_FALSE(requests_agree(a, b));
    b.shape = Shape{17};
    EXPECT_FALSE(requests_agree(a, b));
  }
}

TEST(Request, NamesTensorWhereGroupsDiffer) {
  Request a{"w", Kind::kAllreduce};
  a.members = {{"w", DataType::kFloat32, {3}}, {"b", DataType::kFloat64, {5}}};
  Request b = a;
  b.members[1].shape = Shape{6};
  EXPECT_EQ(
      describe_mismatch(a, "rank 0", b, "rank 1"),
      "tensor 'w': rank 0 submitted allreduce (sum) of a group of 2 tensors, rank 1 submitted "
      "allreduce "
      "(sum) of a group of 2 tensors: the groups differ, tensor 1 is 'b' as float64 [5] and 'b' as "
      "float64 [6]");
  b.members.pop_back();
  EXPECT_THAT(describe_mismatch(a, "rank 0", b, "rank 1"),
              ::testing::HasSubstr("tensor 1 is 'b' as float64 [5] and only 1 tensors"));
  EXPECT_THAT(describe_mismatch(a, "rank 0", request(), "rank 1"),
              ::testing::HasSubstr("one is a group"));
}

}  // namespace
}  // namespace horo::coordinator
