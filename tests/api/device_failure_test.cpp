// A device that fails on some ranks ends the job on all of them: on the stand-in, with deadlines
// that nobody comes to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "collectives/in_process/in_process_job.h"
#include "horo/horo.h"
#include "horo/runtime.h"
#include "horo/testing.h"
#include "tests/api/device_model.h"
#include "tests/api/device_operations_rank.h"
#include "tests/api/error_text.h"
#include "tests/collectives/device/cut_peers.h"

namespace horo {
namespace {

using namespace std::chrono_literals;
using device::Stream;
using device_operations_test::view;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;
using testing::RunOptions;
using ::testing::StartsWith;

// As errors name it.
const DeviceGradientSyncOptions kNet = [] {
  DeviceGradientSyncOptions options = kSeveralBuckets;
  options.name = "net";
  return options;
}();

/// What all ranks, which are threads, come to once. Who waits for one that never does goes on at
/// last, and the test fails.
class Meeting {
 public:
  explicit Meeting(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {}
  void come() {
    {
      const std::scoped_lock lock(mutex_);
      here_.insert(std::this_thread::get_id());
    }
    changed_.notify_all();
  }
  void await() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 20s, [&] { return here_.size() == ranks_; }));
  }
  void meet() {
    come();
    await();
  }

 private:
  const std::size_t ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::thread::id> here_;  // guarded by mutex_
};

struct Meetings {
  explicit Meetings(int ranks) : ready(ranks), given(ranks), ended(ranks) {}
  Meeting ready;  // nothing that must succeed is under way
  Meeting given;  // the device has what fails
  Meeting ended;
};

std::string text_of(const std::function<std::string()>& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
    return error.what();
  }
}

using Work = std::function<std::string(Context&, Meetings&)>;

/// What `work` returns on every one of `ranks` ranks, soon. None leaves before, so that no rank's
/// end tells the others.
std::string text_of_all(int ranks, const Work& work, RunOptions options = {}) {
  options.environment.insert(options.environment.end(), {"HORO_TIMEOUT=60s", "HORO_LOG_LEVEL=off"});
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  Meetings meetings(ranks);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(run_ranks(
                   ranks,
                   [&](Context& ctx) {
                     std::string& text = texts[static_cast<std::size_t>(ctx.rank())];
                     text = text_of([&] { return work(ctx, meetings); });
                     meetings.ready.come();
                     meetings.given.come();
                     meetings.ended.meet();
                     throw CommunicationError(text);
                   },
                   options),
               CommunicationError);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
  for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
  return texts[0];
}

// As soon as all ranks have come to `given`, which outlives the stream.
void break_stream(Stream& stream, Meeting& given) {
  device::submit(stream, [&given] {
    given.await();
    throw DeviceError("an illegal memory access");
  });
}

// Once its stream has ended a program cannot give it kernels either, which is not the plan's word.
void end_steps(DeviceModel& model, DeviceGradientSync& sync, Stream& stream, Meeting& given,
               const std::function<void()>& end) {
  for (int step = 1; step < 1000; ++step) {
    for (std::size_t t = std::size(kSizes); t-- > 0;) {
      try {
        model.compute(stream, t, step);
      } catch (const DeviceError&) {
      }
      sync.ready(t, stream.native());
    }
    given.come();
    end();
  }
}

TEST(DeviceFailure, EndsAPlanOnAllRanks) {
  for (const int ranks : {2, 4})
    for (const bool on_host : {true, false})
      for (const std::set<int>& failing : {std::set{1}, std::set{0, 1}}) {
        const std::string text = text_of_all(ranks, [&](Context& ctx, Meetings& meetings) {
          DeviceModel model(ctx);
          const auto stream = model.stream();
          DeviceGradientSync sync(ctx, model.device(), model.gradients(), kNet);
          backward(model, sync, *stream, 0);
          sync.wait();
          meetings.ready.meet();
          if (failing.contains(ctx.rank())) break_stream(*stream, meetings.given);
          std::string own = error_text<CommunicationError>([&] {
            end_steps(model, sync, *stream, meetings.given,
                      [&] { on_host ? sync.wait() : sync.wait_on(stream->native()); });
          });
          EXPECT_EQ(error_text<CommunicationError>([&] { sync.check(); }), own);
          EXPECT_EQ(error_text<CommunicationError>([&] { sync.ready(0, stream->native()); }), own);
          return own;
        });
        EXPECT_THAT(text, AllOf(HasSubstr("(host thread-node-0) failed in allreduce 'net/bucket "),
                                HasSubstr("': an illegal memory access")));
        if (failing.size() == 1) {
          EXPECT_THAT(text, StartsWith("rank 1 "));
        }
      }
}

TEST(DeviceFailure, EndsAnExchangeByNodesOnAllRanks) {
  RunOptions nodes;
  nodes.environment = {"HORO_ALGORITHM=hierarchical", "HORO_RANKS_PER_NODE=2"};
  const auto fail = [](Context& ctx, Meetings& meetings) {
    DeviceModel model(ctx);
    const auto stream = model.stream();
    DeviceGradientSync sync(ctx, model.device(), model.gradients(), kNet);
    meetings.ready.meet();
    if (ctx.rank() == 2) break_stream(*stream, meetings.given);
    return error_text<CommunicationError>(
        [&] { end_steps(model, sync, *stream, meetings.given, [&] { sync.wait(); }); });
  };
  EXPECT_THAT(text_of_all(3, fail, nodes),
              AllOf(StartsWith("rank 2 "), HasSubstr("illegal memory access")));
}

TEST(DeviceFailure, EndsTheLaunchesOfGraphsOnAllRanks) {
  const std::string text = text_of_all(3, [](Context& ctx, Meetings& meetings) {
    DeviceModel model(ctx);
    const auto stream = model.stream();
    DeviceGradientSync sync(ctx, model.device(), model.gradients(), kNet);
    int step = 3;
    DeviceStepGraph graph = sync.capture(stream->native(), [&] {
      for (std::size_t t = 0; t < std::size(kSizes); ++t) {
        model.compute(*stream, t, &step);
        sync.ready(t, stream->native());
      }
      sync.wait_on(stream->native());
    });
    graph.launch();
    graph.wait();
    meetings.ready.meet();
    if (ctx.rank() == 2) break_stream(*stream, meetings.given);
    return error_text<CommunicationError>([&] {
      for (int launch = 0; launch < 1000; ++launch) {
        graph.launch();
        meetings.given.come();
        graph.wait();
      }
    });
  });
  EXPECT_THAT(text, AllOf(StartsWith("rank 2 "), HasSubstr("failed in allreduce 'net/bucket "),
                          HasSubstr("illegal memory access")));
}

// Where the stream has failed already when a call asks for it.
TEST(DeviceFailure, ThatACallMeetsFirstEndsThePlanOnAllRanks) {
  using Call = std::function<void(DeviceModel&, DeviceGradientSync&, Stream & whole, void* failed)>;
  const Call ready = [](auto&, auto& sync, auto&, void* failed) { sync.ready(3, failed); };
  const Call wait_on = [](auto& model, auto& sync, auto& whole, void* failed) {
    backward(model, sync, whole, 1);
    sync.wait_on(failed);
  };
  for (const Call& call : {ready, wait_on}) {
    const std::string text = text_of_all(2, [&](Context& ctx, Meetings& meetings) {
      DeviceModel model(ctx);
      const auto stream = model.stream(), other = model.stream();
      DeviceGradientSync sync(ctx, model.device(), model.gradients(), kNet);
      backward(model, sync, *stream, 0);
      sync.wait();
      meetings.ready.meet();
      if (ctx.rank() == 0) return error_text<CommunicationError>([&] { ctx.barrier(); });
      meetings.given.come();
      device::submit(*other, [] { throw DeviceError("an illegal memory access"); });
      EXPECT_THROW(other->synchronize(), DeviceError);
      return error_text<CommunicationError>([&] { call(model, sync, *stream, other->native()); });
    });
    EXPECT_THAT(text, AllOf(StartsWith("rank 1 "), HasSubstr("failed in allreduce 'net/bucket "),
                            HasSubstr("': an illegal memory access")));
  }
}

// Also what they have not agreed on, and what has nothing to do with the device.
TEST(DeviceFailure, EndsOperationsByNameOnAllRanks) {
  for (const bool on_host : {true, false}) {
    const std::string text = text_of_all(4, [&](Context& ctx, Meetings& meetings) {
      device_operations_test::Rank rank(ctx, 21);
      const auto& x = rank.tensor(0, 5003);
      const auto& y = rank.tensor(1, 17);
      DeviceOperations ops(ctx, rank.device());
      ops.allreduce(view(x), {.name = "x", .stream = rank.native()});
      meetings.ready.meet();
      const auto other = rank.device().make_stream(device::Priority::kNormal);
      if (ctx.rank() % 2 == 1) break_stream(*other, meetings.given);
      const DeviceHandle handle =
          ops.allreduce_async(view(x), {.name = "x", .stream = other->native()});
      const DeviceHandle later = ops.allreduce_async(
          view(y), {.name = "y of " + std::to_string(ctx.rank() / 2), .stream = rank.native()});
      meetings.given.come();
      std::string own = error_text<CommunicationError>([&] {
        if (on_host) handle.wait();
        for (;; std::this_thread::sleep_for(1ms)) handle.wait_on(rank.native());
      });
      EXPECT_EQ(error_text<CommunicationError>([&] { later.wait(); }), own);
      EXPECT_EQ(error_text<CommunicationError>(
                    [&] { ops.allreduce(view(y), {.name = "y", .stream = rank.native()}); }),
                own);
      EXPECT_EQ(error_text<CommunicationError>([&] { ctx.barrier(); }), own);
      return own;
    });
    EXPECT_THAT(text, HasSubstr(" failed in allreduce 'x': an illegal memory access"));
  }
}

/// What rank 1 reaches the others by, until its messages to rank 3, on the other node, are cut off.
class CutTransport : public collectives::Transport {
 public:
  CutTransport(std::unique_ptr<Transport> whole, const std::atomic<bool>& is_cut)
      : whole_(std::move(whole)), is_cut_(is_cut) {}
  const Topology& topology() const override { return whole_->topology(); }
  const WaitPolicy& wait_policy() const override { return whole_->wait_policy(); }
  std::shared_ptr<AbortSignal> abort_signal() const override { return whole_->abort_signal(); }
  std::unique_ptr<collectives::PointToPoint> make_point_to_point() override {
    return std::make_unique<collectives::CutPeers>(whole_->make_point_to_point(), 3, &is_cut_);
  }
  std::unique_ptr<collectives::MessageChannel> make_message_channel() override {
    return whole_->make_message_channel();
  }
  std::unique_ptr<collectives::SharedRegion> make_node_region(std::size_t bytes) override {
    return whole_->make_node_region(bytes);
  }
  std::unique_ptr<collectives::Collectives> make_reference_collectives() override {
    return whole_->make_reference_collectives();
  }
  std::unique_ptr<Transport> make_subset(const std::vector<int>& members, int number) override {
    return whole_->make_subset(members, number);
  }
  void abort(const char* text) noexcept override { whole_->abort(text); }

 private:
  const std::unique_ptr<Transport> whole_;
  const std::atomic<bool>& is_cut_;
};

TEST(DeviceFailure, OfTheExchangeBetweenNodesEndsOperationsByNameOnAllRanks) {
  const std::vector<std::string> settings = {"HORO_ALGORITHM=hierarchical", "HORO_RANKS_PER_NODE=2",
                                             "HORO_TIMEOUT=60s", "HORO_LOG_LEVEL=off"};
  const ParsedEnvironment environment = parse_environment(settings);
  collectives::InProcessJob job(
      4, {.wait = make_wait_policy(environment.settings, 4), .ranks_per_node = 2});
  std::atomic<bool> is_cut = false;
  std::vector<std::string> texts(4);
  Meetings meetings(4);
  const auto begin = std::chrono::steady_clock::now();
  const auto run = [&](int number) {
    std::unique_ptr<collectives::Transport> transport = job.transport(number);
    if (number == 1) transport = std::make_unique<CutTransport>(std::move(transport), is_cut);
    Context ctx(std::make_shared<Runtime>(nullptr, std::move(transport), environment));
    device_operations_test::Rank rank(ctx, 22);
    const auto& x = rank.tensor(0, 5003);
    DeviceOperations ops(ctx, rank.device());
    const DeviceAllreduceOptions options{.name = "x", .stream = rank.native()};
    ops.allreduce(view(x), options);
    meetings.ready.meet();
    if (number == 1) is_cut = true;
    std::string text = error_text<CommunicationError>([&] { ops.allreduce(view(x), options); });
    meetings.ended.meet();
    EXPECT_THROW(ctx.shutdown(), CommunicationError);
    return text;
  };
  const auto run_to_the_end = [&](int number) {
    texts[static_cast<std::size_t>(number)] = text_of([&] { return run(number); });
    meetings.ready.come();
    meetings.ended.come();
  };
  {
    std::vector<std::jthread> threads;
    for (int number = 0; number < 4; ++number) threads.emplace_back(run_to_the_end, number);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
  for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
  EXPECT_THAT(texts[0],
              AllOf(HasSubstr(" failed in allreduce 'x': "),
                    HasSubstr("rank 1 (host thread-node-0)"), HasSubstr("the link is cut")));
}

// A plan may outlive what the program has of the set.
TEST(DeviceFailure, OfAProcessSetEndsTheRanksOutsideToo) {
  for (const bool is_closed : {false, true}) {
    const std::string text = text_of_all(3, [&](Context& ctx, Meetings& meetings) {
      ProcessSet set = ctx.new_process_set({1, 2});
      if (!set.includes_me()) {
        meetings.ready.come();
        meetings.given.come();
        return error_text<CommunicationError>([&] { ctx.barrier(); });
      }
      DeviceModel model(set);
      const auto stream = model.stream();
      DeviceGradientSync sync(set, model.device(), model.gradients(), kNet);
      if (is_closed) set.close();
      meetings.ready.meet();
      if (ctx.rank() == 2) break_stream(*stream, meetings.given);
      return error_text<CommunicationError>(
          [&] { end_steps(model, sync, *stream, meetings.given, [&] { sync.wait(); }); });
    });
    EXPECT_THAT(text, AllOf(StartsWith("rank 2 "), HasSubstr("' of process set "),
                            HasSubstr("illegal memory access")));
  }
}

TEST(DeviceFailure, OfARankAloneOrAfterTheEndIsItsOwn) {
  run_ranks(1, [](Context& ctx) {
    Meeting given(1);
    DeviceModel model(ctx);
    const auto stream = model.stream();
    DeviceGradientSync sync(ctx, model.device(), model.gradients());
    break_stream(*stream, given);
    EXPECT_THAT(error_text<DeviceError>(
                    [&] { end_steps(model, sync, *stream, given, [&] { sync.wait(); }); }),
                HasSubstr("illegal memory access"));
    ctx.barrier();
  });
  run_ranks(2, [](Context& ctx) {
    Meeting given(1);
    DeviceModel model(ctx);
    const auto stream = model.stream();
    DeviceGradientSync sync(ctx, model.device(), model.gradients());
    backward(model, sync, *stream, 0);
    sync.wait();
    ctx.shutdown();
    break_stream(*stream, given);
    EXPECT_THAT(error_text<DeviceError>(
                    [&] { end_steps(model, sync, *stream, given, [&] { sync.wait(); }); }),
                HasSubstr("illegal memory access"));
  });
}

}  // namespace
}  // namespace horo
