#include "horo/plan/bucket_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "horo/plan/plan_agreement.h"

namespace horo::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

NamedTensor gradient(const std::string& name, std::size_t count,
                     DataType type = DataType::kFloat32) {
  return {name, TensorView(nullptr, type, Shape{count})};
}

TEST(BucketPlan, PacksFromLastToFirst) {
  const std::vector<NamedTensor> gradients = {gradient("a", 10), gradient("b", 10),
                                              gradient("c", 10), gradient("d", 5)};
  const BucketPlan plan = make_bucket_plan(gradients, {80});
  ASSERT_EQ(plan.buckets.size(), 2u);
  EXPECT_THAT(plan.buckets[0], ElementsAre(3, 2));
  EXPECT_THAT(plan.buckets[1], ElementsAre(1, 0));
  EXPECT_THAT(plan.bucket_of, ElementsAre(1, 1, 0, 0));
}

TEST(BucketPlan, OrderDoesNotDependOnBucketSize) {
  const std::vector<NamedTensor> gradients = {gradient("a", 10), gradient("b", 10),
                                              gradient("c", 10), gradient("d", 5)};
  const std::vector<std::size_t> order = {2, 0, 3, 1};
  for (const std::size_t bytes : {1u, 60u, 80u, 1000u}) {
    const BucketPlan plan = make_bucket_plan(gradients, order, {bytes, 20});
    EXPECT_EQ(packing_order(plan), order);
    EXPECT_EQ(make_bucket_plan(gradients, packing_order(plan), {60}).buckets,
              make_bucket_plan(gradients, order, {60}).buckets);
  }
}

TEST(BucketPlan, DoesNotMixTypes) {
  const std::vector<NamedTensor> gradients = {
      gradient("a", 1), gradient("b", 1, DataType::kFloat16), gradient("c", 1)};
  EXPECT_EQ(make_bucket_plan(gradients, {1000}).buckets.size(), 3u);
}

TEST(BucketPlan, TilesRandomSets) {
  std::mt19937 random(11);
  for (int round = 0; round < 1000; ++round) {
    const std::size_t target = random() % 5000 + 1;
    std::vector<NamedTensor> gradients;
    for (unsigned i = random() % 50 + 1; i-- > 0;)
      gradients.push_back(gradient("g" + std::to_string(i), random() % 900,
                                   random() % 5 ? DataType::kFloat32 : DataType::kFloat64));
    const BucketPlan plan = make_bucket_plan(gradients, {target});
    std::size_t next = gradients.size();
    for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
      std::size_t bytes = 0;
      for (std::size_t i : plan.buckets[b]) {
        EXPECT_EQ(i, --next);
        EXPECT_EQ(plan.bucket_of[i], b);
        EXPECT_EQ(gradients[i].tensor.type(), gradients[plan.buckets[b].front()].tensor.type());
        bytes += gradients[i].tensor.bytes();
      }
      EXPECT_TRUE(bytes <= target || plan.buckets[b].size() == 1);
    }
    EXPECT_EQ(next, 0u);
  }
}

std::string mismatch_between(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b,
                             std::size_t bytes_b = 100, std::optional<DataType> wire_b = {},
                             const Compression& compression_b = {}) {
  const std::vector<coordinator::Request> descriptions[] = {
      describe_plan(a, ReduceOp::kAverage, 100, {}, {}),
      describe_plan(a, ReduceOp::kAverage, 100, {}, {}),
      describe_plan(b, ReduceOp::kAverage, bytes_b, wire_b, compression_b)};
  const std::string names[] = {"rank 0", "rank 1", "rank 2"};
  return find_plan_mismatch("g", descriptions, names);
}

TEST(PlanMismatch, NamesFirstDifference) {
  const std::vector<NamedTensor> base = {gradient("w", 10), gradient("b", 2)};
  EXPECT_EQ(mismatch_between(base, base), "");
  EXPECT_EQ(mismatch_between(base, {gradient("w", 10), gradient("b", 3)}),
            "gradients 'g': tensor 'b': rank 0 submitted allreduce (average) of float32 [2], rank "
            "2 submitted "
            "allreduce (average) of float32 [3]: the shapes differ");
  EXPECT_THAT(mismatch_between(base, {gradient("w", 10), gradient("bias", 2)}),
              HasSubstr("gradient 1 is 'b' on rank 0 and 'bias' on rank 2"));
  EXPECT_THAT(
      mismatch_between(base, {gradient("w", 10)}),
      HasSubstr("rank 0 registered 2 and rank 2 registered 1; only one of them registered 'b'"));
  EXPECT_THAT(mismatch_between(base, base, 200), HasSubstr("bucket_bytes 200"));
  EXPECT_THAT(mismatch_between(base, base, 100, DataType::kBFloat16),
              HasSubstr("wire type float32 on rank 0 and average with bucket_bytes 100 and wire "
                        "type bfloat16 on rank 2"));
  EXPECT_EQ(mismatch_between(base, base, 100, {}, {.kind = Compression::Kind::kTopK}),
            "gradients 'g': compression.kind = none on rank 0 and compression.kind = topk on rank "
            "2");
}

}  // namespace
}  // namespace horo::plan
