// Steps of a GradientSync in graphs, on the stand-in, whose streams run late at random.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "horo/horo.h"
#include "horo/step_graph.h"
#include "horo/testing.h"
#include "tests/api/device/device_model.h"
#include "tests/api/error_text.h"
#include "tests/support/stream_gate.h"

namespace horo {
namespace {

using namespace std::chrono_literals;
using device::Stream;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;
using testing::RunOptions;

/// A rank with a plan. The step of a launch is the value of `now` when the device runs it.
struct Trainer {
  explicit Trainer(Context& context, const GradientSyncOptions& options = kSeveralBuckets)
      : ctx(context),
        model(ctx, 11),
        stream(model.stream()),
        side(model.stream()),
        forked(model.device().make_event()),
        sync(std::in_place, ctx, model.gradients(), options) {}

  // A second stream computes half of the gradients.
  void step() {
    stream->record(*forked);
    side->wait(*forked);
    for (std::size_t t = std::size(kSizes); t-- > 0;) {
      Stream& own = t % 2 == 0 ? *stream : *side;
      model.compute(own, t, &now);
      sync->ready(t, own.native());
    }
    sync->wait_on(stream->native());
    model.expect_sums(*stream, ctx.size(), &now);
  }
  StepGraph capture() {
    return sync->capture(stream->native(), [&] { step(); });
  }
  void begin(int number) {
    device::submit(*stream, [this, number] { now = number; });
  }
  // The plan's error for a lost step. The stream may fail before the plan reports it.
  std::string launch_until_failure(StepGraph& graph) {
    return error_text<CommunicationError>([&] {
      for (int number = 0; number < 1000; ++number) {
        graph.launch();
        graph.wait();
      }
    });
  }

  Context& ctx;
  int now = -1;
  DeviceModel model;
  std::unique_ptr<Stream> stream, side;
  std::unique_ptr<device::Event> forked;
  std::optional<GradientSync> sync;  // goes first
};

class StepGraphRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, StepGraphRanks, ::testing::Values(1, 2, 3));

TEST_P(StepGraphRanks, LaunchesAndPlainStepsAlternate) {
  run_ranks(GetParam(), [](Context& ctx) {
    Trainer trainer(ctx);
    EXPECT_GT(trainer.sync->bucket_count(), 2u);
    const std::uint64_t before = ctx.counters().collectives;
    StepGraph first = trainer.capture();
    std::optional<StepGraph> second;
    constexpr int kSteps = 14;
    for (int number = 0; number < kSteps; ++number) {
      trainer.begin(number);
      if (number == 6) second.emplace(trainer.capture());
      if (number % 4 == 1)
        trainer.step();
      else
        (second && number % 4 == 0 ? *second : first).launch();
    }
    first.wait();
    trainer.stream->synchronize();
    EXPECT_EQ(trainer.now, kSteps - 1);
    // Every bucket of every step is counted after the device has completed.
    const std::uint64_t all = before + kSteps * trainer.sync->bucket_count();
    for (int i = 0; i < 1000 && ctx.counters().collectives < all; ++i)
      std::this_thread::sleep_for(1ms);
    EXPECT_EQ(ctx.counters().collectives, all);
  });
}

TEST(StepGraph, IsAtMostTwoStepsAheadAndOutlivesSync) {
  run_ranks(2, [](Context& ctx) {
    Trainer trainer(ctx);
    StepGraph graph = trainer.capture();
    device::StreamGate gate(trainer.model.device());
    gate.hold(*trainer.stream);
    trainer.begin(3);
    for (int number = 0; number < 2; ++number) graph.launch();
    std::future<void> third = std::async(std::launch::async, [&] { graph.launch(); });
    EXPECT_EQ(third.wait_for(100ms), std::future_status::timeout);
    gate.open();
    third.get();
    trainer.sync.reset();
    trainer.begin(4);
    graph.launch();
    graph.wait();
    EXPECT_EQ(trainer.now, 4);
  });
}

TEST(StepGraph, PlainStepOnOtherStreamFollowsLaunch) {
  run_ranks(2, [](Context& ctx) {
    Trainer trainer(ctx);
    StepGraph graph = trainer.capture();
    device::StreamGate gate(trainer.model.device());
    trainer.begin(3);
    if (ctx.rank() == 0) gate.hold(*trainer.stream);
    graph.launch();
    // This step reduces the values that the launch leaves. No event of the program orders the two.
    for (std::size_t t = 0; t < std::size(kSizes); ++t)
      trainer.sync->ready(t, trainer.side->native());
    std::this_thread::sleep_for(20ms);
    gate.open();
    trainer.sync->wait();
    trainer.model.expect_sums_now(2, 3, 2);
  });
}

TEST(StepGraph, RejectsInvalidStepAndPlanContinues) {
  run_ranks(2, [](Context& ctx) {
    Trainer trainer(ctx);
    GradientSync& sync = *trainer.sync;
    void* native = trainer.stream->native();
    const auto refused = [&]<typename Error = InvalidArgument>(const std::function<void()>& step) {
      const std::string text =
          error_text<Error>([&] { (void)sync.capture(trainer.stream->native(), step); });
      trainer.begin(2);
      trainer.step();
      return text;
    };
    EXPECT_THAT(refused([&] {
                  sync.ready(2, native);
                  sync.ready(6, native);
                  sync.wait_on(native);
                }),
                AllOf(HasSubstr("ready() of 5 of 7 gradients"), HasSubstr("layer5")));
    EXPECT_THAT(refused([&] { sync.ready(2, native); }), HasSubstr("must end with wait_on()"));
    EXPECT_THAT(refused([&] {
                  trainer.step();
                  trainer.step();
                }),
                HasSubstr("marked ready twice"));
    EXPECT_THAT(refused([&] {
                  trainer.step();
                  sync.wait_on(native);
                }),
                HasSubstr("wait_on() was called twice"));
    EXPECT_THAT(refused([&] {
                  backward(trainer.model, sync, *trainer.stream, 0);
                  sync.wait();
                }),
                HasSubstr("call wait_on()"));
    EXPECT_THAT(error_text<InvalidArgument>([&] {
                  (void)trainer.model.device().capture(*trainer.stream, [&] { trainer.step(); });
                }),
                HasSubstr("capture the step with GradientSync::capture()"));
    StepGraph graph = trainer.capture();
    EXPECT_THAT(refused([&] { graph.launch(); }),
                HasSubstr("launch() must not be called in a step"));
    EXPECT_THAT(error_text<InvalidArgument>([&] {
                  (void)trainer.model.device().capture(*trainer.stream, [&] { graph.launch(); });
                }),
                HasSubstr("launch() on a stream that is being captured"));
    EXPECT_THAT(refused([&] { (void)trainer.capture(); }),
                HasSubstr("capture() must not be called in a step"));
    EXPECT_THAT(refused.operator()<DeviceError>([&] { trainer.stream->synchronize(); }),
                HasSubstr("is being captured"));
    EXPECT_THAT(refused.operator()<DeviceError>([&] {
      sync.ready(6, trainer.side->native());  // which takes no part
    }),
                HasSubstr("was not recorded there"));
    EXPECT_THAT(refused.operator()<std::logic_error>([&] {
      sync.ready(6, native);
      throw std::logic_error("no such layer");
    }),
                HasSubstr("no such layer"));
    sync.ready(0, native);
    EXPECT_THAT(error_text<InvalidArgument>([&] { graph.launch(); }),
                HasSubstr("must be called between steps"));
    EXPECT_THAT(error_text<InvalidArgument>([&] { (void)trainer.capture(); }),
                HasSubstr("must be called between steps"));
    for (std::size_t t = 1; t < std::size(kSizes); ++t) sync.ready(t, native);
    sync.wait_on(native);
    trainer.begin(5);
    graph.launch();
    graph.wait();
  });
}

TEST(StepGraph, RejectsHierarchicalExchange) {
  RunOptions nodes;
  nodes.environment = {"HORO_ALGORITHM=hierarchical", "HORO_RANKS_PER_NODE=1"};
  run_ranks(
      2,
      [](Context& ctx) {
        Trainer trainer(ctx);
        EXPECT_THAT(error_text<InvalidArgument>([&] { (void)trainer.capture(); }),
                    HasSubstr("HORO_ALGORITHM=hierarchical"));
        trainer.begin(0);
        trainer.step();
        trainer.stream->synchronize();
      },
      nodes);
}

TEST(StepGraph, NamesRankThatStopsLaunching) {
  RunOptions options;
  options.environment = {"HORO_TIMEOUT=600ms", "HORO_STALL_WARNING=100ms", "HORO_LOG_LEVEL=off"};
  std::mutex mutex;
  std::vector<std::string> texts;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(run_ranks(
                   3,
                   [&](Context& ctx) {
                     Trainer trainer(ctx);
                     StepGraph graph = trainer.capture();
                     trainer.begin(1);
                     for (int number = 0; number < 3; ++number) graph.launch();
                     graph.wait();
                     if (ctx.rank() == 2) {
                       std::this_thread::sleep_for(1500ms);
                       return;
                     }
                     const std::string text = trainer.launch_until_failure(graph);
                     EXPECT_THROW(graph.launch(), CommunicationError);
                     EXPECT_THROW(trainer.sync->wait(), CommunicationError);
                     const std::scoped_lock lock(mutex);
                     texts.push_back(text);
                     throw CommunicationError(text);
                   },
                   options),
               CommunicationError);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_THAT(texts[0], AllOf(HasSubstr("rank 2 "), HasSubstr("layer")));
}

TEST(StepGraph, FailedRankEndsLaunchesOfOthers) {
  try {
    run_ranks(3, [&](Context& ctx) {
      Trainer trainer(ctx);
      StepGraph graph = trainer.capture();
      trainer.begin(1);
      graph.launch();
      if (ctx.rank() == 1) throw std::runtime_error("disk full");
      EXPECT_THAT(trainer.launch_until_failure(graph), names_failed_rank(1));
      throw std::runtime_error("follows");
    });
    ADD_FAILURE();
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1: disk full"));
  }
}

}  // namespace
}  // namespace horo
