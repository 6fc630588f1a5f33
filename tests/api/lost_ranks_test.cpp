#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/api/error_text.h"

namespace horo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;
using testing::RunOptions;

TEST(Errors, NamesMissingRankAfterTimeout) {
  for (int missing : {0, 1, 2}) {
    RunOptions options;
    options.environment = {"HORO_TIMEOUT=300ms", "HORO_STALL_WARNING=100ms", "HORO_LOG_LEVEL=off"};
    std::mutex mutex;
    std::vector<std::string> texts;
    try {
      run_ranks(
          3,
          [&](Context& ctx) {
            std::vector<float> x(4);
            if (ctx.rank() == missing) {
              std::this_thread::sleep_for(std::chrono::milliseconds(1200));
              return;
            }
            const std::string text = error_text<CommunicationError>(
                [&] { ctx.allreduce(TensorView(x), {.name = "lonely"}); });
            const std::scoped_lock lock(mutex);
            texts.push_back(text);
          },
          options);
    } catch (const CommunicationError&) {
    }
    ASSERT_EQ(texts.size(), 2u);
    EXPECT_EQ(texts[0], texts[1]);
    EXPECT_THAT(texts[0], HasSubstr("'lonely'"));
    EXPECT_THAT(texts[0], HasSubstr("rank " + std::to_string(missing) + " "));
  }
}

TEST(Errors, NamesRankThatEndsEarly) {
  run_ranks(3, [](Context& ctx) {
    std::vector<float> x(4);
    ctx.allreduce(TensorView(x), {.name = "first"});
    if (ctx.rank() == 1) return;
    EXPECT_THAT(
        error_text<ShutdownError>([&] { ctx.allreduce(TensorView(x), {.name = "second"}); }),
        HasSubstr("'second' cannot complete: rank 1 (host thread-node-0) has shut down"));
  });
}

TEST(Errors, ThrowingRankEndsWaitsOfOthers) {
  for (int failing : {0, 2}) {
    try {
      run_ranks(3, [&](Context& ctx) {
        std::vector<float> x(4);
        ctx.allreduce(TensorView(x), {.name = "first"});
        if (ctx.rank() == failing) throw std::runtime_error("disk full");
        EXPECT_THAT(error_text<CommunicationError>(
                        [&] { ctx.allreduce(TensorView(x), {.name = "second"}); }),
                    names_failed_rank(failing));
        // Later operations end at once, with the same error.
        EXPECT_THAT(error_text<CommunicationError>(
                        [&] { ctx.allreduce(TensorView(x), {.name = "third"}); }),
                    HasSubstr("failed"));
      });
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), "rank " + std::to_string(failing) + ": disk full");
    }
  }
}

TEST(Errors, ThrowingRankEndsCollectivesOfOthers) {
  try {
    run_ranks(4, [](Context& ctx) {
      std::vector<float> a(100000, 1.0f);
      const std::vector<NamedTensor> gradients = {{"a", TensorView(a)}};
      GradientSync sync(ctx, gradients);
      sync.exchange();
      if (ctx.rank() == 3) throw std::runtime_error("diverged");
      sync.ready(0);
      EXPECT_THAT(error_text<CommunicationError>([&] { sync.wait(); }), names_failed_rank(3));
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 3: diverged");
  }
}

TEST(Errors, NamesRankThatLeavesDuringStep) {
  const auto run = [] {
    run_ranks(3, [](Context& ctx) {
      std::vector<float> a(100000, 1.0f);
      std::vector<float> b(100000, 1.0f);
      const std::vector<NamedTensor> gradients = {{"a", TensorView(a)}, {"b", TensorView(b)}};
      GradientSync sync(ctx, gradients, {.bucket_bytes = 1});
      sync.exchange();
      sync.ready(1);
      if (ctx.rank() == 1) return;
      sync.ready(0);
      sync.wait();
    });
  };
  EXPECT_THAT(error_text<ShutdownError>(run),
              AllOf(HasSubstr("rank 1 (host thread-node-0)"), HasSubstr("left")));
}

TEST(Errors, NamesRankThatEndsPlanEarlyAndItsSteps) {
  for (const bool handles_it : {true, false}) {
    std::mutex mutex;
    std::vector<std::string> texts;
    const auto train = [&](Context& ctx) {
      std::vector<float> a(10007, 1.0f), b(3, 1.0f);
      const std::vector<NamedTensor> gradients = {{"a", TensorView(a)}, {"b", TensorView(b)}};
      GradientSync sync(ctx, gradients, {.name = "net", .bucket_bytes = 1});
      for (int step = 0; step < 7; ++step) sync.exchange();
      if (ctx.rank() == 1) return;
      try {
        sync.exchange();
      } catch (const ShutdownError& error) {
        {
          const std::scoped_lock lock(mutex);
          texts.emplace_back(error.what());
        }
        if (!handles_it) throw;
      }
    };
    if (handles_it)
      run_ranks(4, train);
    else
      EXPECT_THROW(run_ranks(4, train), ShutdownError);
    ASSERT_GE(texts.size(), handles_it ? 3u : 1u);
    for (const std::string& text : texts)
      EXPECT_THAT(
          text,
          AllOf(HasSubstr("gradients 'net': rank 1 (host thread-node-0) has left after 7 steps, "
                          "but rank "),
                HasSubstr(" exchanges another step; call GradientSync::join() where ranks")));
  }
}

TEST(Errors, NamesRankThatThrowsWhilePlanWaits) {
  // Rank 0's plan thread waits for rank 1, which waits for rank 0's metric. Both must detect the
  // failure at once.
  for (const char* per_node : {"HORO_RANKS_PER_NODE=0", "HORO_RANKS_PER_NODE=1"}) {
    RunOptions options;
    options.environment = {per_node};
    try {
      run_ranks(
          2,
          [](Context& ctx) {
            std::vector<float> a(100000, 1.0f);
            std::vector<float> b(100000, 1.0f);
            std::vector<float> metric(1);
            const std::vector<NamedTensor> gradients = {{"a", TensorView(a)}, {"b", TensorView(b)}};
            GradientSync sync(ctx, gradients, {.bucket_bytes = 1});
            if (ctx.rank() == 0) {
              sync.ready(1);
              std::this_thread::sleep_for(std::chrono::milliseconds(30));
              throw std::runtime_error("diverged");
            }
            EXPECT_THAT(error_text<CommunicationError>(
                            [&] { ctx.allreduce(TensorView(metric), {.name = "metric"}); }),
                        names_failed_rank(0));
          },
          options);
      FAIL();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "rank 0: diverged");
    }
  }
}

TEST(Errors, NamesMissingRankIfTimeoutIsBelowWarning) {
  RunOptions options;
  options.environment = {"HORO_TIMEOUT=300ms", "HORO_STALL_WARNING=10s"};
  EXPECT_THROW(run_ranks(
                   3,
                   [](Context& ctx) {
                     std::vector<float> x(4);
                     if (ctx.rank() == 2) {
                       std::this_thread::sleep_for(std::chrono::milliseconds(1000));
                       return;
                     }
                     EXPECT_THAT(error_text<CommunicationError>(
                                     [&] { ctx.allreduce(TensorView(x), {.name = "lonely"}); }),
                                 AllOf(HasSubstr("'lonely'"), HasSubstr("rank 2 ")));
                   },
                   options),
               CommunicationError);
}

TEST(Errors, LostMessagesTimeOut) {
  RunOptions options;
  options.environment = {"HORO_TIMEOUT=200ms", "HORO_LOG_LEVEL=off"};
  options.drop_messages_of = 1;
  EXPECT_THROW(run_ranks(
                   2, [](Context& ctx) { ctx.barrier(); }, options),
               CommunicationError);
}

}  // namespace
}  // namespace horo
