// A device that fails on some ranks ends the job on all ranks. Runs on the stand-in, with timeouts
// that do not expire.
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
#include "horo/runtime/runtime.h"
#include "horo/testing.h"
#include "tests/api/device/device_model.h"
#include "tests/api/device/device_operations_rank.h"
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

// The name of the operation in errors.
const GradientSyncOptions kNet = [] {
  GradientSyncOptions options = kSeveralBuckets;
  options.name = "net";
  return options;
}();

/// A single-use barrier of all ranks, which are threads. A wait that lasts 20 s fails the test and
/// returns.
class RankLatch {
 public:
  explicit RankLatch(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {}
  void arrive() {
    {
      const std::scoped_lock lock(mutex_);
      arrived_.insert(std::this_thread::get_id());
    }
    changed_.notify_all();
  }
  void wait_for_all() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 20s, [&] { return arrived_.size() == ranks_; }));
  }
  void arrive_and_wait() {
    arrive();
    wait_for_all();
  }

 private:
  const std::size_t ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::thread::id> arrived_;  // guarded by mutex_
};

struct Latches {
  explicit Latches(int ranks) : ready(ranks), submitted(ranks), ended(ranks) {}
  RankLatch ready;      // every operation that must succeed is complete
  RankLatch submitted;  // the failing work is on the device
  RankLatch ended;
};

std::string text_of(const std::function<std::string()>& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
    return error.what();
  }
}

using Work = std::function<std::string(Context&, Latches&)>;

/// Runs `work` on `ranks` ranks, expects the same text of each within 20 s and returns it. All
/// ranks stay until the last one is done, so the end of a rank cannot be the cause of an error.
std::string text_of_all(int ranks, const Work& work, RunOptions options = {}) {
  options.environment.insert(options.environment.end(), {"HORO_TIMEOUT=60s", "HORO_LOG_LEVEL=off"});
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  Latches latches(ranks);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(run_ranks(
                   ranks,
                   [&](Context& ctx) {
                     std::string& text = texts[static_cast<std::size_t>(ctx.rank())];
                     text = text_of([&] { return work(ctx, latches); });
                     latches.ready.arrive();
                     latches.submitted.arrive();
                     latches.ended.arrive_and_wait();
                     throw CommunicationError(text);
                   },
                   options),
               CommunicationError);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
  for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
  return texts[0];
}

// The stream fails once all ranks have arrived at `submitted`, which must outlive it.
void break_stream(Stream& stream, RankLatch& submitted) {
  device::submit(stream, [&submitted] {
    submitted.wait_for_all();
    throw DeviceError("an illegal memory access");
  });
}

// Kernels submitted to a failed stream throw another error than the plan.
void end_steps(DeviceModel& model, GradientSync& sync, Stream& stream, RankLatch& submitted,
               const std::function<void()>& end) {
  for (int step = 1; step < 1000; ++step) {
    for (std::size_t t = std::size(kSizes); t-- > 0;) {
      try {
        model.compute(stream, t, step);
      } catch (const DeviceError&) {
      }
      sync.ready(t, stream.native());
    }
    submitted.arrive();
    end();
  }
}

TEST(DeviceFailure, EndsPlanOnAllRanks) {
  for (const int ranks : {2, 4})
    for (const bool on_host : {true, false})
      for (const std::set<int>& failing : {std::set{1}, std::set{0, 1}}) {
        const std::string text = text_of_all(ranks, [&](Context& ctx, Latches& latches) {
          DeviceModel model(ctx);
          const auto stream = model.stream();
          GradientSync sync(ctx, model.gradients(), kNet);
          backward(model, sync, *stream, 0);
          sync.wait();
          latches.ready.arrive_and_wait();
          if (failing.contains(ctx.rank())) break_stream(*stream, latches.submitted);
          std::string own = error_text<CommunicationError>([&] {
            end_steps(model, sync, *stream, latches.submitted,
                      [&] { on_host ? (void)sync.wait() : sync.wait_on(stream->native()); });
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

TEST(DeviceFailure, EndsHierarchicalExchangeOnAllRanks) {
  RunOptions nodes;
  nodes.environment = {"HORO_ALGORITHM=hierarchical", "HORO_RANKS_PER_NODE=2"};
  const auto fail = [](Context& ctx, Latches& latches) {
    DeviceModel model(ctx);
    const auto stream = model.stream();
    GradientSync sync(ctx, model.gradients(), kNet);
    latches.ready.arrive_and_wait();
    if (ctx.rank() == 2) break_stream(*stream, latches.submitted);
    return error_text<CommunicationError>(
        [&] { end_steps(model, sync, *stream, latches.submitted, [&] { sync.wait(); }); });
  };
  EXPECT_THAT(text_of_all(3, fail, nodes),
              AllOf(StartsWith("rank 2 "), HasSubstr("illegal memory access")));
}

TEST(DeviceFailure, EndsGraphLaunchesOnAllRanks) {
  const std::string text = text_of_all(3, [](Context& ctx, Latches& latches) {
    DeviceModel model(ctx);
    const auto stream = model.stream();
    GradientSync sync(ctx, model.gradients(), kNet);
    int step = 3;
    StepGraph graph = sync.capture(stream->native(), [&] {
      for (std::size_t t = 0; t < std::size(kSizes); ++t) {
        model.compute(*stream, t, &step);
        sync.ready(t, stream->native());
      }
      sync.wait_on(stream->native());
    });
    graph.launch();
    graph.wait();
    latches.ready.arrive_and_wait();
    if (ctx.rank() == 2) break_stream(*stream, latches.submitted);
    return error_text<CommunicationError>([&] {
      for (int launch = 0; launch < 1000; ++launch) {
        graph.launch();
        latches.submitted.arrive();
        graph.wait();
      }
    });
  });
  EXPECT_THAT(text, AllOf(StartsWith("rank 2 "), HasSubstr("failed in allreduce 'net/bucket "),
                          HasSubstr("illegal memory access")));
}

// The stream has failed before the call uses it.
TEST(DeviceFailure, BeforeCallEndsPlanOnAllRanks) {
  using Call = std::function<void(DeviceModel&, GradientSync&, Stream & whole, void* failed)>;
  const Call ready = [](auto&, auto& sync, auto&, void* failed) { sync.ready(3, failed); };
  const Call wait_on = [](auto& model, auto& sync, auto& whole, void* failed) {
    backward(model, sync, whole, 1);
    sync.wait_on(failed);
  };
  for (const Call& call : {ready, wait_on}) {
    const std::string text = text_of_all(2, [&](Context& ctx, Latches& latches) {
      DeviceModel model(ctx);
      const auto stream = model.stream(), other = model.stream();
      GradientSync sync(ctx, model.gradients(), kNet);
      backward(model, sync, *stream, 0);
      sync.wait();
      latches.ready.arrive_and_wait();
      if (ctx.rank() == 0) return error_text<CommunicationError>([&] { ctx.barrier(); });
      latches.submitted.arrive();
      device::submit(*other, [] { throw DeviceError("an illegal memory access"); });
      EXPECT_THROW(other->synchronize(), DeviceError);
      return error_text<CommunicationError>([&] { call(model, sync, *stream, other->native()); });
    });
    EXPECT_THAT(text, AllOf(StartsWith("rank 1 "), HasSubstr("failed in allreduce 'net/bucket "),
                            HasSubstr("': an illegal memory access")));
  }
}

// Operations without agreement and operations in host memory fail too.
TEST(DeviceFailure, EndsNamedOperationsOnAllRanks) {
  for (const bool on_host : {true, false}) {
    const std::string text = text_of_all(4, [&](Context& ctx, Latches& latches) {
      device_operations_test::Rank rank(ctx, 21);
      const auto& x = rank.tensor(0, 5003);
      const auto& y = rank.tensor(1, 17);
      ctx.allreduce(view(x), {.name = "x", .stream = rank.native()});
      latches.ready.arrive_and_wait();
      const auto other = rank.device().make_stream(device::Priority::kNormal);
      if (ctx.rank() % 2 == 1) break_stream(*other, latches.submitted);
      const Handle handle = ctx.allreduce_async(view(x), {.name = "x", .stream = other->native()});
      const Handle later = ctx.allreduce_async(
          view(y), {.name = "y of " + std::to_string(ctx.rank() / 2), .stream = rank.native()});
      latches.submitted.arrive();
      std::string own = error_text<CommunicationError>([&] {
        if (on_host) handle.wait();
        for (;; std::this_thread::sleep_for(1ms)) handle.wait_on(rank.native());
      });
      EXPECT_EQ(error_text<CommunicationError>([&] { later.wait(); }), own);
      EXPECT_EQ(error_text<CommunicationError>(
                    [&] { ctx.allreduce(view(y), {.name = "y", .stream = rank.native()}); }),
                own);
      EXPECT_EQ(error_text<CommunicationError>([&] { ctx.barrier(); }), own);
      return own;
    });
    EXPECT_THAT(text, HasSubstr(" failed in allreduce 'x': an illegal memory access"));
  }
}

/// The transport of rank 1. Its messages to rank 3, on the other node, are lost from some point on.
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

TEST(DeviceFailure, BetweenNodesEndsNamedOperationsOnAllRanks) {
  const std::vector<std::string> settings = {"HORO_ALGORITHM=hierarchical", "HORO_RANKS_PER_NODE=2",
                                             "HORO_TIMEOUT=60s", "HORO_LOG_LEVEL=off"};
  const ParsedEnvironment environment = parse_environment(settings);
  collectives::InProcessJob job(
      4, {.wait = make_wait_policy(environment.settings, 4), .ranks_per_node = 2});
  std::atomic<bool> is_cut = false;
  std::vector<std::string> texts(4);
  Latches latches(4);
  const auto begin = std::chrono::steady_clock::now();
  const auto run = [&](int number) {
    std::unique_ptr<collectives::Transport> transport = job.transport(number);
    if (number == 1) transport = std::make_unique<CutTransport>(std::move(transport), is_cut);
    Context ctx(std::make_shared<Runtime>(nullptr, std::move(transport), environment));
    device_operations_test::Rank rank(ctx, 22);
    const auto& x = rank.tensor(0, 5003);
    const AllreduceOptions options{.name = "x", .stream = rank.native()};
    ctx.allreduce(view(x), options);
    latches.ready.arrive_and_wait();
    if (number == 1) is_cut = true;
    std::string text = error_text<CommunicationError>([&] { ctx.allreduce(view(x), options); });
    latches.ended.arrive_and_wait();
    EXPECT_THROW(ctx.shutdown(), CommunicationError);
    return text;
  };
  const auto run_to_end = [&](int number) {
    texts[static_cast<std::size_t>(number)] = text_of([&] { return run(number); });
    latches.ready.arrive();
    latches.ended.arrive();
  };
  {
    std::vector<std::jthread> threads;
    for (int number = 0; number < 4; ++number) threads.emplace_back(run_to_end, number);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
  for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
  EXPECT_THAT(texts[0],
              AllOf(HasSubstr(" failed in allreduce 'x': "),
                    HasSubstr("rank 1 (host thread-node-0)"), HasSubstr("the link is cut")));
}

// A plan may outlive the ProcessSet object of the program.
TEST(DeviceFailure, InProcessSetEndsRanksOutside) {
  for (const bool is_closed : {false, true}) {
    const std::string text = text_of_all(3, [&](Context& ctx, Latches& latches) {
      ProcessSet set = ctx.new_process_set({1, 2});
      if (!set.includes_me()) {
        latches.ready.arrive();
        latches.submitted.arrive();
        return error_text<CommunicationError>([&] { ctx.barrier(); });
      }
      DeviceModel model(set);
      const auto stream = model.stream();
      GradientSync sync(set, model.gradients(), kNet);
      if (is_closed) set.close();
      latches.ready.arrive_and_wait();
      if (ctx.rank() == 2) break_stream(*stream, latches.submitted);
      return error_text<CommunicationError>(
          [&] { end_steps(model, sync, *stream, latches.submitted, [&] { sync.wait(); }); });
    });
    EXPECT_THAT(text, AllOf(StartsWith("rank 2 "), HasSubstr("' of process set "),
                            HasSubstr("illegal memory access")));
  }
}

TEST(DeviceFailure, OfSingleRankOrAfterShutdownIsLocal) {
  run_ranks(1, [](Context& ctx) {
    RankLatch submitted(1);
    DeviceModel model(ctx);
    const auto stream = model.stream();
    GradientSync sync(ctx, model.gradients());
    break_stream(*stream, submitted);
    EXPECT_THAT(error_text<DeviceError>(
                    [&] { end_steps(model, sync, *stream, submitted, [&] { sync.wait(); }); }),
                HasSubstr("illegal memory access"));
    ctx.barrier();
  });
  run_ranks(2, [](Context& ctx) {
    RankLatch submitted(1);
    DeviceModel model(ctx);
    const auto stream = model.stream();
    GradientSync sync(ctx, model.gradients());
    backward(model, sync, *stream, 0);
    sync.wait();
    ctx.shutdown();
    break_stream(*stream, submitted);
    EXPECT_THAT(error_text<DeviceError>(
                    [&] { end_steps(model, sync, *stream, submitted, [&] { sync.wait(); }); }),
                HasSubstr("illegal memory access"));
  });
}

}  // namespace
}  // namespace horo
