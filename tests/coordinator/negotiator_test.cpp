#include "horo/coordinator/negotiator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "horo/base/error.h"

namespace horo::coordinator {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Topology kThree = make_topology(0, {"a", "a", "b"}, {"a", "a", "b"});
const Negotiator::Time kStart{};

Request request(const std::string& name) {
  return {name, Kind::kAllreduce, DataType::kFloat32, ReduceOp::kSum, 0, Shape{17, 17}};
}

TEST(Negotiator, AgreesWhenTheLastRankHasSubmitted) {
  Negotiator negotiator(kThree);
  EXPECT_FALSE(negotiator.add(2, request("x"), kStart));
  EXPECT_FALSE(negotiator.add(0, request("y"), kStart));
  EXPECT_FALSE(negotiator.add(0, request("x"), kStart));
  const auto agreement = negotiator.add(1, request("x"), kStart);
  ASSERT_TRUE(agreement);
  EXPECT_EQ(agreement->mismatch, "");
  EXPECT_EQ(agreement->requests.size(), 3u);
  EXPECT_FALSE(negotiator.is_empty());
}

TEST(Negotiator, ANameMayBeUsedAgainAfterAgreement) {
  Negotiator negotiator(kThree);
  for (int step = 0; step < 3; ++step)
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_EQ(negotiator.add(rank, request("x"), kStart).has_value(), rank == 2);
}

TEST(Negotiator, ARankThatSubmitsTwiceIsAnError) {
  Negotiator negotiator(kThree);
  (void)negotiator.add(1, request("x"), kStart);
  EXPECT_THROW((void)negotiator.add(1, request("x"), kStart), CommunicationError);
}

std::string mismatch_of(const Request& first, const Request& third) {
  Negotiator negotiator(kThree);
  (void)negotiator.add(0, first, kStart);
  (void)negotiator.add(1, first, kStart);
  return negotiator.add(2, third, kStart)->mismatch;
}

TEST(Negotiator, MismatchNamesTensorRanksDescriptionsAndField) {
  Request other = request("fc1.weight");
  other.shape = Shape{17, 18};
  EXPECT_EQ(mismatch_of(request("fc1.weight"), other),
            "tensor 'fc1.weight': rank 0 (host a) submitted allreduce (sum) of float32 [17, 17], "
            "rank 2 (host b) "
            "submitted allreduce (sum) of float32 [17, 18]: the shapes differ");
  other = request("x");
  other.type = DataType::kInt32;
  EXPECT_THAT(mismatch_of(request("x"), other),
              HasSubstr("int32 [17, 17]: the element types differ"));
  other = request("x");
  other.op = ReduceOp::kMax;
  EXPECT_THAT(mismatch_of(request("x"), other),
              HasSubstr("(max) of float32 [17, 17]: the reduce operations differ"));
  other = request("x");
  other.kind = Kind::kBroadcast;
  EXPECT_THAT(mismatch_of(request("x"), other), HasSubstr("the operations differ"));
  Request root0 = other;
  other.root = 1;
  EXPECT_THAT(mismatch_of(root0, other),
              HasSubstr("broadcast from rank 1 of float32 [17, 17]: the roots differ"));
}

TEST(Negotiator, AllgatherAndAlltoallRowsMayDifferOtherDimensionsMayNot) {
  for (const Kind kind : {Kind::kAllgather, Kind::kAlltoall}) {
    Request a = request("x");
    a.kind = kind;
    a.splits = {5, 5, 7};
    Request b = a;
    b.shape = Shape{0, 17};
    b.splits = {0, 0, 0};
    EXPECT_EQ(mismatch_of(a, b), "");
    b.shape = Shape{17, 16};
    EXPECT_THAT(mismatch_of(a, b), HasSubstr("the shapes differ"));
    b.shape = Shape{17};
    EXPECT_THAT(mismatch_of(a, b), HasSubstr("the shapes differ"));
  }
}

TEST(Negotiator, TellsWhoIsMissingOldestFirst) {
  Negotiator negotiator(kThree);
  (void)negotiator.add(2, request("old"), kStart);
  (void)negotiator.add(1, request("new"), kStart + 5s);
  (void)negotiator.add(2, request("new"), kStart + 6s);
  EXPECT_TRUE(negotiator.waiting_longer_than(10s, kStart + 9s).empty());
  const auto waiting = negotiator.waiting_longer_than(10s, kStart + 20s);
  ASSERT_EQ(waiting.size(), 2u);
  EXPECT_EQ(waiting[0].name, "old");
  EXPECT_EQ(waiting[0].age, 20s);
  EXPECT_THAT(waiting[0].missing, ElementsAre(0, 1));
  EXPECT_EQ(waiting[1].name, "new");
  EXPECT_THAT(waiting[1].missing, ElementsAre(0));
}

TEST(Negotiator, OperationsThatADepartedRankLeftOpenAreOrphans) {
  Negotiator negotiator(kThree);
  Request shutdown;
  shutdown.name = "shutdown";
  shutdown.kind = Kind::kShutdown;
  (void)negotiator.add(0, request("before"), kStart);
  (void)negotiator.add(1, request("kept"), kStart);
  EXPECT_TRUE(negotiator.take_orphans().empty());
  (void)negotiator.add(1, shutdown, kStart);
  auto orphans = negotiator.take_orphans();
  ASSERT_EQ(orphans.size(), 1u);
  EXPECT_EQ(orphans[0].name, "before");
  EXPECT_EQ(orphans[0].departed, 1);
  (void)negotiator.add(2, request("after"), kStart);
  orphans = negotiator.take_orphans();
  ASSERT_EQ(orphans.size(), 1u);
  EXPECT_EQ(orphans[0].name, "after");
  (void)negotiator.add(0, request("kept"), kStart);
  EXPECT_TRUE(negotiator.add(2, request("kept"), kStart));
}

}  // namespace
}  // namespace horo::coordinator
