// The negotiation of named operations: in the node and the tree, in batches, and by number for
// known operations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/api/dynamic_jobs.h"

namespace horo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;
using testing::RunOptions;

RunOptions on_nodes_of(int ranks_per_node) {
  RunOptions options;
  options.environment = {"HORO_RANKS_PER_NODE=" + std::to_string(ranks_per_node)};
  return options;
}

// The limit is so long that no leader reports a wait, even on a slow machine. A report would be one
// more message.
RunOptions without_reports_on_nodes_of(int ranks_per_node) {
  RunOptions options = on_nodes_of(ranks_per_node);
  options.environment.emplace_back("HORO_STALL_WARNING=5min");
  return options;
}

TEST(NamedOperations, FuseTensorsSubmittedInAnyOrder) {
  for (const DynamicJob& job : dynamic_jobs())
    run_ranks(
        job.ranks,
        [](Context& ctx) {
          constexpr std::size_t kTensors = 500;
          std::mt19937 random(static_cast<unsigned>(ctx.rank()) + 5);
          for (int step = 0; step < 2; ++step) {
            std::vector<std::vector<float>> tensors(kTensors);
            std::vector<std::size_t> order(kTensors);
            for (std::size_t t = 0; t < kTensors; ++t) {
              order[t] = t;
              tensors[t].assign(t % 37, static_cast<float>(ctx.rank() + 1 + static_cast<int>(t)));
            }
            std::shuffle(order.begin(), order.end(), random);
            ctx.barrier();
            const Counters before = ctx.counters();
            std::vector<Handle> handles;
            for (const std::size_t t : order)
              handles.push_back(ctx.allreduce_async(
                  TensorView(tensors[t]), {.name = "t" + std::to_string(t), .op = ReduceOp::kSum}));
            for (const Handle& handle : handles) handle.wait();
            const int n = ctx.size();
            for (std::size_t t = 0; t < kTensors; ++t)
              for (const float x : tensors[t])
                ASSERT_EQ(x, static_cast<float>(n * (n + 1) / 2 + n * static_cast<int>(t)));
            if (n == 1) continue;  // no other rank to wait for
            const std::uint64_t launches = ctx.counters().collectives - before.collectives;
            RecordProperty("launches", static_cast<int>(launches));
            EXPECT_LE(launches, kTensors / 5);
          }
        },
        job.options);
}

TEST(NamedOperations, SupportEightSubmittingThreads) {
  run_ranks(2, [](Context& ctx) {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&ctx, t] {
        for (int k = 0; k < 1000; ++k) {
          std::vector<float> x(5, static_cast<float>(ctx.rank() * 10 + t + k));
          ctx.allreduce(TensorView(x),
                        {.name = "thread" + std::to_string(t) + "." + std::to_string(k % 10),
                         .op = ReduceOp::kSum});
          ASSERT_EQ(x[4], static_cast<float>(10 + 2 * (t + k)));
        }
      });
  });
}

// Each leader except the root sends one message up and receives one, for any number of ranks per
// node.
TEST(NamedOperations, SendOneMessageUpAndDownBetweenNodes) {
  for (const int per_node : {1, 2, 3}) {
    std::mutex mutex;
    std::uint64_t messages = 0;
    std::atomic<int> has_counted{0};
    const int nodes = 5;
    run_ranks(
        nodes * per_node,
        [&](Context& ctx) {
          std::vector<float> x(2);
          ctx.allreduce(TensorView(x), {.name = "x"});
          const auto messages_between_nodes = [&] {
            const Counters counters = ctx.counters();
            return counters.control_messages_sent - counters.node_messages_sent;
          };
          const std::uint64_t before = messages_between_nodes();
          for (int k = 0; k < 10; ++k) ctx.allreduce(TensorView(x), {.name = "x"});
          const std::uint64_t after = messages_between_nodes();
          // Messages of a shutdown must not be counted.
          for (++has_counted; has_counted < ctx.size();) std::this_thread::yield();
          const std::scoped_lock lock(mutex);
          messages += after - before;
          if (ctx.local_rank() > 0) {
            EXPECT_EQ(after, 0u);
            EXPECT_GT(ctx.counters().control_messages_sent, 0u);
          }
        },
        without_reports_on_nodes_of(per_node));
    EXPECT_EQ(messages, 10u * 2 * (nodes - 1));
  }
}

TEST(NamedOperations, AreSentAsNumbersOnceKnown) {
  for (const int per_node : {0, 1})
    run_ranks(
        3,
        [](Context& ctx) {
          const auto n = static_cast<std::size_t>(ctx.size());
          const std::string name(300, 'k');
          const auto own_rows = static_cast<std::size_t>(ctx.rank()) + 1;
          std::vector<float> x(12, static_cast<float>(ctx.rank())), shard(ctx.shard_rows(12));
          std::vector<float> rows(own_rows, static_cast<float>(ctx.rank())), all(n * (n + 1) / 2);
          std::vector<float> received(24);
          const std::vector<NamedTensor> group = {{name + ".a", TensorView(x)},
                                                  {name + ".b", TensorView(rows)}};
          std::vector<std::uint64_t> bytes;
          for (int k = 0; k < 4; ++k) {
            const Counters before = ctx.counters();
            ctx.broadcast(TensorView(x), {.name = name + "b", .root = 1});
            ctx.reduce_scatter(TensorView(x), TensorView(shard), {.name = name + "s"});
            ctx.allgather(TensorView(rows), TensorView(all), {.name = name + "g"});
            EXPECT_EQ(all.back(), 2.0f);
            EXPECT_EQ(all[1], 1.0f);
            // The split differs between ranks.
            std::vector<std::size_t> splits(n, 2);
            splits[static_cast<std::size_t>(ctx.rank())] = 8;
            const auto got = ctx.alltoall(TensorView(x), TensorView(received),
                                          {.name = name + "a", .splits = splits});
            EXPECT_EQ(got, splits);
            ctx.barrier({.name = name});
            const Counters after = ctx.counters();
            bytes.push_back(after.control_bytes_sent - before.control_bytes_sent);
          }
          EXPECT_GT(bytes[0], 300u * 5);
          for (int k : {1, 2, 3}) EXPECT_LT(bytes[static_cast<std::size_t>(k)], 5u * 2 * 64);
        },
        without_reports_on_nodes_of(per_node));
}

TEST(NamedOperations, AllgatherFollowsChangedRowsOfOneRank) {
  for (const DynamicJob& job : dynamic_jobs())
    run_ranks(
        job.ranks,
        [](Context& ctx) {
          // In most steps some ranks send a number and others a new description.
          const auto rows_of = [](int rank, int step) {
            return static_cast<std::size_t>(rank + (step % (rank + 2) == 0 ? step : 0));
          };
          for (int step = 0; step < 12; ++step) {
            std::size_t total = 0;
            for (int r = 0; r < ctx.size(); ++r) total += rows_of(r, step);
            std::vector<std::int32_t> own(rows_of(ctx.rank(), step) * 2, ctx.rank() * 100 + step);
            std::vector<std::int32_t> all(total * 2);
            ctx.allgather(TensorView(own.data(), {own.size() / 2, 2}),
                          TensorView(all.data(), {total, 2}), {.name = "g"});
            std::size_t at = 0;
            for (int r = 0; r < ctx.size(); ++r)
              for (std::size_t i = 0; i < rows_of(r, step) * 2; ++i)
                ASSERT_EQ(all[at++], r * 100 + step);
          }
        },
        job.options);
}

TEST(NamedOperations, MismatchNamesSameRankForAnyNodes) {
  for (const int per_node : {0, 1, 2, 3})
    for (const int odd : {1, 2, 4, 5}) {
      std::mutex mutex;
      std::vector<std::string> texts;
      run_ranks(
          6,
          [&](Context& ctx) {
            std::vector<float> x(3);
            for (int k = 0; k < 2; ++k) {
              // Known and new operations.
              ctx.allreduce(TensorView(x), {.name = "known"});
              for (const std::string& name : {std::string("known"), "new" + std::to_string(k)}) {
                std::vector<float> y(ctx.rank() >= odd ? 4 : 3);
                try {
                  ctx.allreduce(TensorView(y), {.name = name});
                  ADD_FAILURE();
                } catch (const MismatchError& error) {
                  const std::scoped_lock lock(mutex);
                  texts.push_back(std::to_string(k) + error.what());
                  EXPECT_THAT(error.what(),
                              AllOf(HasSubstr("'" + name + "'"), HasSubstr("rank 0 (host"),
                                    HasSubstr("rank " + std::to_string(odd) + " (host"),
                                    HasSubstr("the shapes differ")));
                }
              }
            }
          },
          on_nodes_of(per_node));
      EXPECT_EQ(texts.size(), 24u);
      const std::set<std::string> different(texts.begin(), texts.end());
      EXPECT_EQ(different.size(), 4u) << "each operation has one text on all ranks";
    }
}

TEST(NamedOperations, EveryRankNamesOnlyMissingRankOfOtherNode) {
  // Leaders of a node, another rank of one, and a rank alone on its node.
  for (const auto& [per_node, missing] : {std::pair(2, 4), {3, 3}, {2, 5}, {1, 4}}) {
    RunOptions options = on_nodes_of(per_node);
    for (const char* setting :
         {"HORO_TIMEOUT=1500ms", "HORO_STALL_WARNING=1s", "HORO_LOG_LEVEL=off"})
      options.environment.emplace_back(setting);
    std::mutex mutex;
    std::vector<std::string> texts;
    try {
      run_ranks(
          6,
          [&, missing = missing](Context& ctx) {
            std::vector<float> x(4);
            if (ctx.rank() == missing) {
              std::this_thread::sleep_for(std::chrono::milliseconds(2500));
              return;
            }
            try {
              ctx.allreduce(TensorView(x), {.name = "lonely"});
            } catch (const CommunicationError& error) {
              const std::scoped_lock lock(mutex);
              texts.emplace_back(error.what());
            }
          },
          options);
    } catch (const CommunicationError&) {
    }
    ASSERT_EQ(texts.size(), 5u);
    for (const std::string& text : texts)
      EXPECT_THAT(text, AllOf(HasSubstr("never submitted 'lonely'"),
                              ::testing::StartsWith("rank " + std::to_string(missing) + " (host"),
                              ::testing::Not(HasSubstr(", rank"))));
  }
}

TEST(NamedOperations, ExtraTensorOfOneRankDoesNotBlockOthers) {
  run_ranks(
      4,
      [](Context& ctx) {
        std::vector<float> extra(3), x(3, 1.0f);
        Handle handle;
        if (ctx.rank() == 3) handle = ctx.allreduce_async(TensorView(extra), {.name = "extra"});
        for (int k = 0; k < 20; ++k) {
          ctx.allreduce(TensorView(x), {.name = "x", .op = ReduceOp::kMax});
          ASSERT_EQ(x[0], 1.0f);
        }
        if (ctx.rank() < 3) handle = ctx.allreduce_async(TensorView(extra), {.name = "extra"});
        handle.wait();
      },
      on_nodes_of(2));
}

TEST(NamedOperations, ConcurrentBarriersAllWait) {
  std::array<std::atomic<int>, 4> arrived{};
  run_ranks(3, [&](Context& ctx) {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < arrived.size(); ++t)
      threads.emplace_back([&, t] {
        for (int k = 1; k <= 20; ++k) {
          // A different rank is the last one at each barrier.
          if (static_cast<std::size_t>(ctx.rank()) == (t + static_cast<std::size_t>(k)) % 3)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          ++arrived[t];
          ctx.barrier({.name = "b" + std::to_string(t)});
          EXPECT_GE(arrived[t].load(), 3 * k);
        }
      });
    threads.clear();
  });
  for (const std::atomic<int>& count : arrived) EXPECT_EQ(count, 60);
}

TEST(NamedOperations, SupportMessagesLargerThanNodeRing) {
  run_ranks(
      4,
      [](Context& ctx) {
        std::vector<Handle> handles;
        std::vector<std::vector<float>> tensors(300, std::vector<float>(3, 1.0f));
        for (std::size_t t = 0; t < tensors.size(); ++t)
          handles.push_back(ctx.allreduce_async(
              TensorView(tensors[t]),
              {.name = std::string(500, 'n') + std::to_string(t), .op = ReduceOp::kSum}));
        for (const Handle& handle : handles) handle.wait();
        for (const auto& tensor : tensors) ASSERT_EQ(tensor[2], 4.0f);
        // One message that never fits as a whole.
        std::vector<float> x(2, 1.0f);
        ctx.allreduce(TensorView(x), {.name = std::string(200000, 'x'), .op = ReduceOp::kSum});
        EXPECT_EQ(x[1], 4.0f);
      },
      on_nodes_of(2));
}

}  // namespace
}  // namespace horo
