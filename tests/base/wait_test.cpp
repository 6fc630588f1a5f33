#include "horo/base/wait.h"

#include <gtest/gtest.h>

#include <thread>

#include "horo/base/error.h"

namespace horo {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Waits for `time` without success.
void wait_for(Waiter& waiter, std::chrono::nanoseconds time) {
  for (const auto end = Clock::now() + time; Clock::now() < end;) waiter.pause("for nothing");
}

TEST(Waiter, EndsAfterTimeoutAndGracePeriod) {
  const WaitPolicy policy{.timeout = 10ms, .grace = 10ms};
  Waiter waiter(policy);
  const auto start = Clock::now();
  EXPECT_THROW(wait_for(waiter, 1h), CommunicationError);
  EXPECT_GE(Clock::now() - start, 20ms);
}

TEST(Waiter, IgnoresExcusedTime) {
  AbortSignal signal;
  const WaitPolicy policy{.timeout = 1s, .abort = &signal};
  Waiter waiter(policy);
  for (const auto end = Clock::now() + 2500ms; Clock::now() < end;) {
    signal.excuse_waits(Clock::now());
    waiter.pause("for nothing");
  }
  EXPECT_THROW(wait_for(waiter, 1h), CommunicationError);
}

TEST(Waiter, IgnoresSuspendedTime) {
  const WaitPolicy policy{.timeout = 1s};
  Waiter waiter(policy);
  wait_for(waiter, 10ms);
  std::this_thread::sleep_for(2500ms);
  EXPECT_NO_THROW(wait_for(waiter, 10ms));
}

TEST(AbortSignal, IsWatchedUntilGivenTime) {
  const AbortSignal signal;
  const auto now = Clock::now();
  EXPECT_FALSE(signal.is_watched(now));
  signal.watch_until(now + 3s);
  EXPECT_TRUE(signal.is_watched(now + 2s));
  EXPECT_FALSE(signal.is_watched(now + 3s));
}

TEST(WaitPolicy, NotesOverdueWaitsDuringGracePeriod) {
  const AbortSignal signal;
  const WaitPolicy policy{.timeout = 10s, .grace = 5s, .abort = &signal};
  const auto start = Clock::now();
  EXPECT_FALSE(policy.has_timed_out(start, start + 10s));
  EXPECT_FALSE(signal.has_overdue_wait(start + 10s));
  EXPECT_FALSE(policy.has_timed_out(start, start + 11s));
  EXPECT_TRUE(signal.has_overdue_wait(start + 11s));
  EXPECT_FALSE(signal.has_overdue_wait(start + 15s)) << "the wait has ended";
  EXPECT_TRUE(policy.has_timed_out(start, start + 15s + 1ns));
}

TEST(WaitPolicy, ExcludesExcusedTime) {
  AbortSignal signal;
  const WaitPolicy policy{.abort = &signal};
  const auto start = Clock::now();
  EXPECT_EQ(policy.time_since(start, start + 9s), 9s);
  signal.excuse_waits(start + 4s);
  EXPECT_EQ(policy.time_since(start, start + 9s), 5s);
  EXPECT_EQ(policy.time_since(start + 6s, start + 9s), 3s);
  EXPECT_EQ(WaitPolicy{}.time_since(start, start + 9s), 9s);
  EXPECT_FALSE(policy.has_timed_out(start, start + 4s + policy.limit()));
  EXPECT_TRUE(policy.has_timed_out(start, start + 4s + policy.limit() + 1ns));
}

TEST(AbortSignal, KeepsFirstTextAndCutsLongText) {
  AbortSignal signal;
  EXPECT_FALSE(signal.is_raised());
  signal.raise(std::string(5000, 'x'));
  signal.raise("another");
  ASSERT_TRUE(signal.is_raised());
  EXPECT_EQ(signal.text().find_first_not_of('x'), std::string::npos);
  EXPECT_GE(signal.text().size(), 1000u);
}

}  // namespace
}  // namespace horo
