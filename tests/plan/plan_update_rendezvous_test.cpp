#include "horo/plan/plan_update_rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "collectives/in_process/in_process_job.h"
#include "horo/base/error.h"
#include "horo/watchdog/long_waits.h"

namespace horo::plan {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// The objects of all ranks, in one process.
class Job {
 public:
  explicit Job(int ranks) : job_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      transports_.push_back(job_.transport(rank));
      of_.push_back(std::make_unique<PlanUpdateRendezvous>(
          "net", transports_.back()->topology(), transports_.back()->make_message_channel(),
          long_waits_));
    }
  }
  std::vector<observe::LongWaits::Wait> long_waits() {
    return long_waits_.current(std::chrono::steady_clock::now());
  }
  PlanUpdateRendezvous& operator[](std::size_t rank) { return *of_[rank]; }

 private:
  observe::LongWaits long_waits_;
  collectives::InProcessJob job_;
  std::vector<std::unique_ptr<collectives::Transport>> transports_;
  std::vector<std::unique_ptr<PlanUpdateRendezvous>> of_;
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

// Calls it so often that it receives the messages that have arrived.
void receive_messages(PlanUpdateRendezvous& rank) {
  for (int call = 0; call < 32; ++call) rank.check_while_exchanging();
}

TEST(PlanUpdateRendezvous, EndsWhenAllRanksUpdate) {
  Job job(3);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::jthread> ranks;
    for (std::size_t r = 0; r < 3; ++r)
      ranks.emplace_back([&, r] { job[r].wait_for_all(long_wait(), 60s); });
  }
}

TEST(PlanUpdateRendezvous, ExchangeDuringUpdateFailsBothRanks) {
  Job job(2);
  std::jthread updates([&] { EXPECT_THROW(job[0].wait_for_all(long_wait(), 60s), MismatchError); });
  bool has_seen = false;
  while (!has_seen) {
    try {
      receive_messages(job[1]);
      std::this_thread::sleep_for(1ms);
    } catch (const MismatchError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 0 (host"));
      has_seen = true;
    }
  }
}

TEST(PlanUpdateRendezvous, IgnoresWithdrawnUpdate) {
  Job job(2);
  EXPECT_THROW(job[0].wait_for_all(short_wait(), 60s), CommunicationError);
  // Rank 0 continues its step, so rank 1 in the same step must not see it as updating.
  EXPECT_NO_THROW(receive_messages(job[1]));
  // An update of rank 1 must not count rank 0 either.
  EXPECT_THROW(job[1].wait_for_all(short_wait(), 60s), CommunicationError);
  EXPECT_NO_THROW(receive_messages(job[0]));
}

TEST(PlanUpdateRendezvous, CompletesInLaterAttempt) {
  Job job(2);
  EXPECT_THROW(job[0].wait_for_all(short_wait(), 60s), CommunicationError);
  for (int round = 0; round < 2; ++round) {
    std::jthread other([&] { job[1].wait_for_all(long_wait(), 60s); });
    job[0].wait_for_all(long_wait(), 60s);
  }
  job[0].end_step();
  job[1].end_step();
  EXPECT_NO_THROW(receive_messages(job[0]));
  EXPECT_NO_THROW(receive_messages(job[1]));
}

TEST(PlanUpdateRendezvous, NotesLongWaitWithMissingRanks) {
  Job job(3);
  EXPECT_THROW(job[1].wait_for_all(short_wait(), 1ms), CommunicationError);
  const auto waits = job.long_waits();
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_THAT(waits[0].text, HasSubstr("update of gradients 'net' has waited "));
  EXPECT_THAT(waits[0].text, HasSubstr(" for rank 0 (host thread-node-0), rank 2 (host"));
}

}  // namespace
}  // namespace horo::plan
