#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

#include "horo/horo.h"
#include "horo/testing.h"

namespace horo {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::run_ranks;
using testing::RunOptions;
using ::testing::SizeIs;

RunOptions short_timeouts(const std::string& ranks_per_node = "0") {
  RunOptions options;
  options.environment = {"HORO_TIMEOUT=500ms", "HORO_STALL_WARNING=100ms", "HORO_LOG_LEVEL=off",
                         "HORO_RANKS_PER_NODE=" + ranks_per_node};
  return options;
}

// The texts of the CommunicationErrors of the ranks, without the ranks that had none.
std::vector<std::string> errors_of(int ranks, const std::function<void(Context&)>& function,
                                   const RunOptions& options) {
  std::mutex mutex;
  std::vector<std::string> texts;
  EXPECT_THROW(run_ranks(
                   ranks,
                   [&](Context& ctx) {
                     try {
                       function(ctx);
                     } catch (const CommunicationError& error) {
                       const std::scoped_lock lock(mutex);
                       texts.emplace_back(error.what());
                       throw;
                     }
                   },
                   options),
               CommunicationError);
  return texts;
}

TEST(WatchdogRanks, AllRanksReportSameError) {
  for (const char* per_node : {"0", "2", "1"}) {
    const auto texts = errors_of(
        4,
        [](Context& ctx) {
          std::vector<float> x(7, static_cast<float>(ctx.rank()));
          if (ctx.rank() == 0) ctx.allreduce(TensorView(x), {.name = "only rank 0"});
          ctx.allreduce(TensorView(x), {.name = "everybody"});
        },
        short_timeouts(per_node));
    ASSERT_THAT(texts, SizeIs(4)) << per_node;
    EXPECT_THAT(texts, Each(texts[0])) << per_node;
    EXPECT_THAT(texts[0], AllOf(AnyOf(HasSubstr("'only rank 0'"), HasSubstr("'everybody'")),
                                HasSubstr("HORO_TIMEOUT is 500 ms")));
  }
}

TEST(WatchdogRanks, NamesMissingGradientAndRank) {
  for (const char* per_node : {"0", "1"}) {
    const auto texts = errors_of(
        3,
        [](Context& ctx) {
          std::vector<float> a(30001, 1.0f);
          const std::vector<NamedTensor> gradients = {{"a", TensorView(a)}};
          GradientSync sync(ctx, gradients, {.name = "model"});
          for (int step = 0; step < 3; ++step) sync.exchange();
          if (ctx.rank() == 2) {
            std::this_thread::sleep_for(1500ms);
            ctx.barrier();
          }
          sync.ready(0);
          sync.wait();
        },
        short_timeouts(per_node));
    ASSERT_THAT(texts, SizeIs(3)) << per_node;
    EXPECT_THAT(texts, Each(AllOf(HasSubstr("rank 2 (host"), HasSubstr("'model/")))) << per_node;
  }
}

TEST(WatchdogRanks, NamesRankWithoutPlanUpdate) {
  for (const char* per_node : {"0", "1"}) {
    const auto texts = errors_of(
        3,
        [](Context& ctx) {
          std::vector<float> a(30001, 1.0f);
          const std::vector<NamedTensor> gradients = {{"a", TensorView(a)}};
          GradientSync sync(ctx, gradients, {.name = "model"});
          for (int step = 0; step < 3; ++step) sync.exchange();
          if (ctx.rank() == 1) {
            std::this_thread::sleep_for(1500ms);
            ctx.barrier();
          }
          sync.update(gradients);
        },
        short_timeouts(per_node));
    ASSERT_THAT(texts, SizeIs(3)) << per_node;
    EXPECT_THAT(texts,
                Each(AllOf(HasSubstr("rank 1 (host"), HasSubstr("never submitted 'model.update'"),
                           HasSubstr("ranks 0 and 2 have waited"))))
        << per_node;
  }
}

TEST(WatchdogRanks, NamesRankWithoutPlanRegistration) {
  const auto texts = errors_of(
      3,
      [](Context& ctx) {
        std::vector<float> a(31, 1.0f);
        if (ctx.rank() == 1) {
          std::this_thread::sleep_for(1500ms);
          ctx.barrier();
        }
        GradientSync sync(ctx, std::vector<NamedTensor>{{"a", TensorView(a)}}, {.name = "model"});
      },
      short_timeouts());
  ASSERT_THAT(texts, SizeIs(3));
  EXPECT_THAT(texts, Each(AllOf(HasSubstr("rank 1 (host"), HasSubstr("never submitted 'model'"))));
}

TEST(WatchdogRanks, DistinguishesPlansOfSameName) {
  const auto texts = errors_of(
      3,
      [](Context& ctx) {
        std::vector<float> a(3001, 1.0f), b(3001, 1.0f);
        const std::vector<NamedTensor> of_a = {{"w", TensorView(a)}}, of_b = {{"w", TensorView(b)}};
        GradientSync first(ctx, of_a, {.name = "net"});
        GradientSync second(ctx, of_b, {.name = "net"});
        first.exchange();
        // Rank 1 is in the next step of the first plan, the others in that of the second plan.
        (ctx.rank() == 1 ? first : second).exchange();
      },
      short_timeouts());
  ASSERT_THAT(texts, SizeIs(3));
  EXPECT_THAT(texts, Each(AllOf(HasSubstr("a subset of ranks is in one collective"),
                                HasSubstr("'net/w'"), HasSubstr("'net#2/w'"))));
}

TEST(WatchdogRanks, PlanEndOnOtherNodeAbortsBeforeTimeout) {
  RunOptions options = short_timeouts("1");
  options.environment[0] = "HORO_TIMEOUT=10min";
  const auto texts = errors_of(
      3,
      [](Context& ctx) {
        std::vector<float> a(3001, 1.0f);
        const std::vector<NamedTensor> gradients = {{"a", TensorView(a)}};
        GradientSync sync(ctx, gradients, {.name = "net"});
        for (int step = 0; step < 7; ++step) sync.exchange();
        if (ctx.rank() != 1) sync.exchange();
      },
      options);
  ASSERT_THAT(texts, SizeIs(::testing::Ge(2u)));
  for (const std::string& text : texts)
    EXPECT_THAT(text, AllOf(HasSubstr("rank 1 (host"),
                            HasSubstr("has ended early, without failure"), HasSubstr("'net/a'"),
                            HasSubstr("since 'net step 6'"), HasSubstr("call join()")));
}

TEST(WatchdogRanks, MissingOperationNamesProcessSet) {
  for (const char* per_node : {"0", "1"}) {
    const auto texts = errors_of(
        4,
        [](Context& ctx) {
          ProcessSet set = ctx.new_process_set({0, 2, 3});
          std::vector<float> x(7, 1.0f);
          if (ctx.rank() == 1 || ctx.rank() == 3) {
            std::this_thread::sleep_for(1500ms);
            ctx.barrier();
          } else {
            set.allreduce(TensorView(x), {.name = "loss"});
          }
        },
        short_timeouts(per_node));
    ASSERT_THAT(texts, SizeIs(4)) << per_node;
    EXPECT_THAT(texts, Each(AllOf(HasSubstr("rank 3 (host"),
                                  HasSubstr("never submitted 'loss' of process set {0, 2, 3}"))))
        << per_node;
  }
}

TEST(WatchdogRanks, MissingGradientNamesProcessSet) {
  const auto texts = errors_of(
      4,
      [](Context& ctx) {
        ProcessSet set = ctx.new_process_set({0, 2, 3});
        std::vector<float> a(3001, 1.0f);
        std::optional<GradientSync> sync;
        if (set.includes_me()) {
          sync.emplace(set, std::vector<NamedTensor>{{"a", TensorView(a)}},
                       GradientSyncOptions{.name = "model"});
          sync->exchange();
          if (ctx.rank() != 3) sync->exchange();
        }
        std::this_thread::sleep_for(1500ms);
        ctx.barrier();
      },
      short_timeouts("2"));
  ASSERT_THAT(texts, SizeIs(4));
  EXPECT_THAT(texts, Each(AllOf(HasSubstr("rank 3 (host"),
                                HasSubstr("never marked 'model/a' of process set {0, 2, 3}"))));
}

TEST(WatchdogRanks, ReportsLateRankOnce) {
  RunOptions options;
  options.environment = {"HORO_STALL_WARNING=500ms"};
  ::testing::internal::CaptureStderr();
  run_ranks(
      3,
      [](Context& ctx) {
        std::vector<float> x(5);
        if (ctx.rank() == 1) std::this_thread::sleep_for(1200ms);
        ctx.allreduce(TensorView(x), {.name = "epoch loss"});
        // The watchdog checks again before the ranks shut down.
        std::this_thread::sleep_for(300ms);
        ctx.barrier();
      },
      options);
  const std::string log = ::testing::internal::GetCapturedStderr();
  const auto first = log.find("'epoch loss'");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("'epoch loss'", first + 1), std::string::npos) << log;
  EXPECT_THAT(log, AllOf(HasSubstr("rank 1 (host"), HasSubstr("no longer blocks the others"),
                         HasSubstr("[rank 0]"), Not(HasSubstr("[rank 2]"))));
}

TEST(WatchdogRanks, ReportsLongPauseWithoutAbort) {
  RunOptions options;
  options.environment = {"HORO_STALL_WARNING=200ms", "HORO_TIMEOUT=600ms", "HORO_RANKS_PER_NODE=1"};
  ::testing::internal::CaptureStderr();
  run_ranks(
      2,
      [](Context& ctx) {
        std::vector<float> x(5, 1.0f);
        if (ctx.rank() == 1) {
          const TraceScope pause = ctx.pause("checkpoint");
          std::this_thread::sleep_for(2s);
        }
        ctx.allreduce(TensorView(x), {.name = "after it"});
        EXPECT_EQ(x[4], 1.0f);
      },
      options);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::ContainsRegex("rank 1 \\(host [^)]*\\) has been in pause 'checkpoint' for "
                                       "[^;]*; rank 0 has waited [^;]* for 'after it'"));
}

TEST(WatchdogRanks, LongComputationIsNotAStall) {
  RunOptions options;
  options.environment = {"HORO_STALL_WARNING=700ms", "HORO_TIMEOUT=5s", "HORO_RANKS_PER_NODE=2"};
  ::testing::internal::CaptureStderr();
  run_ranks(
      4,
      [](Context& ctx) {
        std::vector<float> x(5);
        ctx.allreduce(TensorView(x), {.name = "before"});
        std::this_thread::sleep_for(2s);
        ctx.allreduce(TensorView(x), {.name = "after"});
      },
      options);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), IsEmpty());
}

}  // namespace
}  // namespace horo
