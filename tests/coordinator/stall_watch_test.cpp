#include "horo/coordinator/stall_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace horo::coordinator {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

const Negotiator::Time kStart = Negotiator::Time{} + 1h;

// Ranks 1, 4 and 6 of a job, each a contributor of its own.
Topology job() { return make_topology(4, std::vector<std::string>(8, "n"), {8, "h"}); }
Topology set() { return job().subset({1, 4, 6}); }

class Watched {
 public:
  explicit Watched(Topology topology)
      : topology_(std::move(topology)), watch_(topology_, settings_, policy_) {
    settings_.stall_warning = 3s;
    settings_.timeout = 60s;
    policy_.abort = &abort_;
    for (std::size_t c = 0; c < 2; ++c)
      negotiator_.add(
          c, contribution_of(static_cast<int>(c), {"loss", Kind::kAllreduce, DataType::kFloat32}),
          kStart);
  }
  std::optional<StallWatch::Expired> warn(std::chrono::seconds age) {
    ::testing::internal::CaptureStderr();
    const auto expired = watch_.warn(negotiator_, kStart + age);
    said_ = ::testing::internal::GetCapturedStderr();
    return expired;
  }
  const std::string& said() const { return said_; }
  AbortSignal& abort_signal() { return abort_; }
  StallWatch& watch() { return watch_; }
  const Negotiator& negotiator() const { return negotiator_; }

 private:
  const Topology topology_;
  Settings settings_;
  AbortSignal abort_;
  WaitPolicy policy_;
  StallWatch watch_;
  Negotiator negotiator_{{{0}, {1}, {2}}};
  std::string said_;
};

TEST(StallWatch, WarnsOncePerIntervalThenExpires) {
  Watched watched(job());
  EXPECT_FALSE(watched.warn(2s));
  EXPECT_EQ(watched.said(), "");
  EXPECT_FALSE(watched.warn(4s));
  EXPECT_THAT(watched.said(), HasSubstr("'loss' has waited 4s for rank 2 (host h) to submit it"));
  EXPECT_FALSE(watched.warn(5s));
  EXPECT_EQ(watched.said(), "");
  EXPECT_FALSE(watched.warn(8s));
  EXPECT_THAT(watched.said(), HasSubstr("'loss' has waited 8s"));
  const auto expired = watched.warn(61s);
  ASSERT_TRUE(expired);
  EXPECT_EQ(expired->name, "loss");
  EXPECT_THAT(expired->error, AllOf(HasSubstr("'loss' has waited"), HasSubstr("rank 2 (host h)"),
                                    Not(HasSubstr("process set"))));
}

TEST(StallWatch, NamesTheProcessSetAndItsRanksAsTheJobDoes) {
  Watched watched(set());
  EXPECT_FALSE(watched.warn(4s));
  EXPECT_THAT(watched.said(),
              HasSubstr("'loss' of process set {1, 4, 6} has waited 4s for rank 6 (host h)"));
  EXPECT_THAT(watched.warn(61s)->error,
              AllOf(HasSubstr("'loss' of process set {1, 4, 6} has waited"),
                    HasSubstr("rank 6 (host h)"), HasSubstr("HORO_TIMEOUT is")));
}

TEST(StallWatch, LeavesWarningsToAWatchdogThatSeesAllRanks) {
  Watched watched(job());
  watched.abort_signal().watch_until(kStart + 10s);
  EXPECT_FALSE(watched.warn(4s));
  EXPECT_EQ(watched.said(), "");
  EXPECT_FALSE(watched.warn(11s));
  EXPECT_THAT(watched.said(), HasSubstr("'loss'"));
}

TEST(StallWatch, TellsTheParentEarlyAndOnlyWhatIsNew) {
  Watched watched(job());
  EXPECT_THAT(watched.watch().news(watched.negotiator(), kStart + 500ms), SizeIs(0));
  const auto news = watched.watch().news(watched.negotiator(), kStart + 1s);
  ASSERT_THAT(news, SizeIs(1));
  EXPECT_EQ(news[0].name, "loss");
  EXPECT_THAT(news[0].missing, ::testing::ElementsAre(2));
  EXPECT_THAT(watched.watch().news(watched.negotiator(), kStart + 2s), SizeIs(0));
}

}  // namespace
}  // namespace horo::coordinator
