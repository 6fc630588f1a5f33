#include "horo/coordinator/stall_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace horo::coordinator {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

const ReadinessTable::Time kStart = ReadinessTable::Time{} + 1h;

// Ranks 1, 4 and 6 of a job. Each one is a separate contributor.
Topology job() { return make_topology(4, std::vector<std::string>(8, "n"), {8, "h"}); }
Topology set() { return job().subset({1, 4, 6}); }

class Watched {
 public:
  explicit Watched(Topology topology)
      : topology_(std::move(topology)), watch_(topology_, settings_, policy_, &long_waits_) {
    settings_.stall_warning = 3s;
    settings_.timeout = policy_.timeout = 60s;
    for (std::size_t c = 0; c < 2; ++c)
      table_.add(
          c, contribution_of(static_cast<int>(c), {"loss", Kind::kAllreduce, DataType::kFloat32}),
          kStart);
  }
  std::optional<StallWatch::Expired> check(std::chrono::seconds age) {
    return watch_.check(table_, kStart + age);
  }
  std::vector<std::string> noted(std::chrono::seconds age) {
    std::vector<std::string> texts;
    for (const auto& wait : long_waits_.current(kStart + age)) texts.push_back(wait.text);
    return texts;
  }
  std::vector<Waiting> changes(std::chrono::milliseconds age) {
    return watch_.changes(table_, kStart + age);
  }

 private:
  const Topology topology_;
  Settings settings_;
  WaitPolicy policy_;
  observe::LongWaits long_waits_;
  StallWatch watch_;
  ReadinessTable table_{{{0}, {1}, {2}}};
};

TEST(StallWatch, NotesWaitsThenExpires) {
  Watched watched(job());
  EXPECT_FALSE(watched.check(2s));
  EXPECT_THAT(watched.noted(2s), SizeIs(0));
  EXPECT_FALSE(watched.check(4s));
  EXPECT_THAT(watched.noted(4s),
              ElementsAre("'loss' has waited 4 s for rank 2 (host h) to submit it"));
  EXPECT_FALSE(watched.check(5s));
  EXPECT_THAT(watched.noted(5s),
              ElementsAre("'loss' has waited 5 s for rank 2 (host h) to submit it"));
  EXPECT_THAT(watched.noted(7s), SizeIs(0));
  const auto expired = watched.check(61s);
  ASSERT_TRUE(expired);
  EXPECT_EQ(expired->name, "loss");
  EXPECT_THAT(expired->error,
              AllOf(HasSubstr("'loss' has waited"), HasSubstr("rank 2 (host h) to submit it"),
                    Not(HasSubstr("process set"))));
}

TEST(StallWatch, NamesProcessSetAndRanksOfTheJob) {
  Watched watched(set());
  EXPECT_FALSE(watched.check(4s));
  EXPECT_THAT(watched.noted(4s), ElementsAre(HasSubstr("'loss' of process set {1, 4, 6} has waited "
                                                       "4 s for rank 6 (host h)")));
  EXPECT_THAT(watched.check(61s)->error,
              AllOf(HasSubstr("'loss' of process set {1, 4, 6} has waited"),
                    HasSubstr("rank 6 (host h)"), HasSubstr("HORO_TIMEOUT is")));
}

TEST(StallWatch, ReportsOnlyChangesToParent) {
  Watched watched(job());
  EXPECT_THAT(watched.changes(500ms), SizeIs(0));
  const auto changes = watched.changes(1s);
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].name, "loss");
  EXPECT_THAT(changes[0].missing, ElementsAre(2));
  EXPECT_THAT(watched.changes(2s), SizeIs(0));
}

}  // namespace
}  // namespace horo::coordinator
