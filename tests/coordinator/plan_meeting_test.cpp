#include "horo/coordinator/plan_meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "collectives/in_process/in_process_job.h"
#include "horo/base/error.h"

namespace horo::coordinator {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// The meetings of all ranks, on one thread.
class Meetings {
 public:
  explicit Meetings(int ranks) : job_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      transports_.push_back(job_.transport(rank));
      of_.push_back(std::make_unique<PlanMeeting>("net", transports_.back()->topology(),
                                                  transports_.back()->make_message_channel()));
    }
  }
  PlanMeeting& operator[](std::size_t rank) { return *of_[rank]; }

 private:
  collectives::InProcessJob job_;
  std::vector<std::unique_ptr<collectives::Transport>> transports_;
  std::vector<std::unique_ptr<PlanMeeting>> of_;
};

WaitPolicy short_wait() {
  WaitPolicy policy;
  policy.timeout = 30ms;
  return policy;
}
WaitPolicy long_wait() {
  WaitPolicy policy;
  policy.timeout = 60s;
  return policy;
}

// As often as it takes for a look at the messages.
void look(PlanMeeting& meeting) {
  for (int nap = 0; nap < 32; ++nap) meeting.look_while_exchanging();
}

TEST(PlanMeeting, EndsWhenAllHaveCome) {
  Meetings meetings(3);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::jthread> ranks;
    for (std::size_t r = 0; r < 3; ++r)
      ranks.emplace_back([&, r] { meetings[r].meet(long_wait(), 60s); });
  }
}

TEST(PlanMeeting, ARankThatExchangesInsteadIsAnErrorOnBoth) {
  Meetings meetings(2);
  std::jthread updates([&] { EXPECT_THROW(meetings[0].meet(long_wait(), 60s), MismatchError); });
  bool has_seen = false;
  while (!has_seen) {
    try {
      look(meetings[1]);
      std::this_thread::sleep_for(1ms);
    } catch (const MismatchError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 0 (host"));
      has_seen = true;
    }
  }
}

TEST(PlanMeeting, AWordThatWasTakenBackIsNotMet) {
  Meetings meetings(2);
  EXPECT_THROW(meetings[0].meet(short_wait(), 60s), CommunicationError);
  // Rank 0 goes on with the step: rank 1, in the same, must not take it for one that updates.
  EXPECT_NO_THROW(look(meetings[1]));
  // Nor must an update take it for one that has come.
  EXPECT_THROW(meetings[1].meet(short_wait(), 60s), CommunicationError);
  EXPECT_NO_THROW(look(meetings[0]));
}

TEST(PlanMeeting, AnotherTryMeetsTheOthers) {
  Meetings meetings(2);
  EXPECT_THROW(meetings[0].meet(short_wait(), 60s), CommunicationError);
  for (int round = 0; round < 2; ++round) {
    std::jthread other([&] { meetings[1].meet(long_wait(), 60s); });
    meetings[0].meet(long_wait(), 60s);
  }
  meetings[0].end_step();
  meetings[1].end_step();
  EXPECT_NO_THROW(look(meetings[0]));
  EXPECT_NO_THROW(look(meetings[1]));
}

}  // namespace
}  // namespace horo::coordinator
