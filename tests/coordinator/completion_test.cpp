#include "horo/coordinator/completion.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include "horo/base/error.h"
#include "horo/base/thread_error.h"

namespace horo::coordinator {
namespace {

TEST(Completion, AllWaitersGetTheOutcome) {
  Completion completion;
  std::atomic<int> errors{0};
  {
    std::vector<std::jthread> waiters;
    for (int i = 0; i < 6; ++i)
      waiters.emplace_back([&] {
        try {
          completion.wait();
        } catch (const MismatchError&) {
          ++errors;
        }
      });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_FALSE(completion.is_done());
    completion.complete(std::make_exception_ptr(MismatchError("x")));
  }
  EXPECT_EQ(errors, 6);
  EXPECT_TRUE(completion.is_done());
  EXPECT_THROW(completion.wait(), MismatchError);
}

TEST(Completion, ReturnsCallbacksOnceThenRunsThemAtOnce) {
  Completion completion;
  int calls = 0;
  completion.then([&](const std::exception_ptr& error) { calls += error == nullptr ? 1 : 100; });
  const auto due = completion.complete();
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(calls, 0);
  run_callback(due[0], nullptr);
  EXPECT_EQ(calls, 1);
  completion.then([&](const std::exception_ptr&) { ++calls; });
  EXPECT_EQ(calls, 2);
}

TEST(Completion, CatchesExceptionOfCallback) {
  EXPECT_NO_FATAL_FAILURE(run_callback([](auto) { throw std::runtime_error("mine"); }, nullptr));
  EXPECT_NO_FATAL_FAILURE(run_callback([](auto) { throw 5; }, nullptr));
}

TEST(Completion, CallbackMustNotBlock) {
  Completion pending, done;
  (void)done.complete();
  bool has_thrown = false;
  run_callback(
      [&](auto) {
        done.wait();
        try {
          pending.wait();
        } catch (const InvalidArgument&) {
          has_thrown = true;
        }
      },
      nullptr);
  EXPECT_TRUE(has_thrown);
  EXPECT_NO_THROW(forbid_blocking_in_callbacks());
}

// A Context that is closed while an exception unwinds the stack reports the latest error of the
// thread. That must not be the error of the operations which the shutdown ends.
TEST(Completion, ShutdownErrorIsNotTheLatestErrorOfTheThread) {
  record_thread_error("the error of the program");
  EXPECT_TRUE(make_shutdown_error() != nullptr);
  EXPECT_EQ(latest_thread_error(std::chrono::hours(1)), "the error of the program");
}

}  // namespace
}  // namespace horo::coordinator
