#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/support/sanitizer.h"

namespace horo {
namespace {

using testing::run_ranks;
using testing::RunOptions;

// A value that differs by rank and index. Its sums over ranks are exact in float32.
float value(int rank, std::size_t i, int salt = 0) {
  return static_cast<float>((rank + 1) * 3 + static_cast<int>(i % 97) + salt);
}

class ContextRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(OneToNine, ContextRanks,
                         ::testing::ValuesIn(tested_rank_counts({1, 2, 3, 4, 7, 8, 9})));

TEST_P(ContextRanks, AllreduceComputesEveryOperation) {
  run_ranks(GetParam(), [](Context& ctx) {
    for (std::size_t count : {0ul, 1ul, 17ul, 1025ul, 100003ul}) {
      for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax}) {
        std::vector<float> x(count);
        for (std::size_t i = 0; i < count; ++i) x[i] = value(ctx.rank(), i);
        ctx.allreduce(TensorView(x), {.name = "x", .op = op});
        const int n = ctx.size();
        for (std::size_t i = 0; i < count; ++i) {
          float sum = 0;
          for (int r = 0; r < n; ++r) sum += value(r, i);
          const float expected = op == ReduceOp::kSum       ? sum
                                 : op == ReduceOp::kAverage ? sum * (1.0f / static_cast<float>(n))
                                 : op == ReduceOp::kMin     ? value(0, i)
                                                            : value(n - 1, i);
          ASSERT_FLOAT_EQ(x[i], expected) << name_of(op) << " index " << i << " of " << count;
        }
      }
    }
  });
}

// Small integers, so that sums of every type are exact unless they wrap.
template <typename T>
void expect_exact_sums(Context& ctx, std::size_t count) {
  if (!is_tested(data_type_of<T>)) return;
  const auto own = [](int rank, std::size_t i) { return (rank + 1) * static_cast<int>(i % 7 + 1); };
  std::vector<T> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<T>(own(ctx.rank(), i));
  ctx.allreduce(TensorView(x), {.name = "x", .op = ReduceOp::kSum});
  std::vector<T> expected(7);
  for (std::size_t i = 0; i < 7; ++i) {
    int sum = 0;
    for (int r = 0; r < ctx.size(); ++r) sum += own(r, i);
    expected[i] = static_cast<T>(sum);
  }
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(static_cast<float>(x[i]), static_cast<float>(expected[i % 7]))
        << name_of(data_type_of<T>) << " index " << i << " of " << count;
}

TEST(Context, SumsAreExactForEveryTypeAndSize) {
  for (const char* per_node : {"0", "2"})
    run_ranks(
        3,
        [](Context& ctx) {
          for (const std::size_t count : {0ul, 1ul, 2ul, 17ul, 1023ul, 1024ul, 1025ul, 1000003ul}) {
            expect_exact_sums<float>(ctx, count);
            expect_exact_sums<double>(ctx, count);
            expect_exact_sums<Float16>(ctx, count);
            expect_exact_sums<BFloat16>(ctx, count);
            expect_exact_sums<std::int8_t>(ctx, count);
            expect_exact_sums<std::uint8_t>(ctx, count);
            expect_exact_sums<std::int16_t>(ctx, count);
            expect_exact_sums<std::uint16_t>(ctx, count);
            expect_exact_sums<std::int32_t>(ctx, count);
            expect_exact_sums<std::int64_t>(ctx, count);
          }
        },
        {.environment = {std::string("HORO_RANKS_PER_NODE=") + per_node}});
}

TEST_P(ContextRanks, BroadcastFromEachRoot) {
  run_ranks(GetParam(), [](Context& ctx) {
    for (int root = 0; root < ctx.size(); ++root) {
      std::vector<std::int64_t> x(1003);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = ctx.rank() * 10000 + static_cast<int>(i);
      ctx.broadcast(TensorView(x), {.name = "w", .root = root});
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(x[i], root * 10000 + static_cast<int>(i));
    }
  });
}

TEST_P(ContextRanks, AllgatherHandlesUnevenAndZeroRows) {
  run_ranks(GetParam(), [](Context& ctx) {
    const auto rows_of = [](int rank) {
      return static_cast<std::size_t>(rank % 3) * 5;
    };  // rank 0 has none
    std::size_t total = 0;
    for (int r = 0; r < ctx.size(); ++r) total += rows_of(r);
    std::vector<std::int32_t> input(rows_of(ctx.rank()) * 4);
    for (std::size_t i = 0; i < input.size(); ++i)
      input[i] = ctx.rank() * 1000 + static_cast<int>(i);
    std::vector<std::int32_t> output(total * 4, -1);
    ctx.allgather(TensorView(input.data(), {rows_of(ctx.rank()), 4}),
                  TensorView(output.data(), {total, 4}), {.name = "g"});
    for (std::size_t i = 0; i < input.size(); ++i)
      ASSERT_EQ(input[i], ctx.rank() * 1000 + static_cast<int>(i)) << "allgather changed its input";
    std::size_t at = 0;
    for (int r = 0; r < ctx.size(); ++r)
      for (std::size_t i = 0; i < rows_of(r) * 4; ++i)
        ASSERT_EQ(output[at++], r * 1000 + static_cast<int>(i));
  });
}

TEST_P(ContextRanks, ReduceScatterMatchesSliceOfAllreduce) {
  run_ranks(GetParam(), [](Context& ctx) {
    const std::size_t rows = 13;
    std::vector<double> input(rows * 3);
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = value(ctx.rank(), i);
    const std::vector<double> before = input;
    std::vector<double> output(ctx.shard_rows(rows) * 3);
    ctx.reduce_scatter(TensorView(input.data(), {rows, 3}),
                       TensorView(output.data(), {ctx.shard_rows(rows), 3}),
                       {.name = "rs", .op = ReduceOp::kSum});
    EXPECT_EQ(input, before);
    std::vector<double> all = before;
    ctx.allreduce(TensorView(all), {.name = "all", .op = ReduceOp::kSum});
    const auto n = static_cast<std::size_t>(ctx.size());
    const auto rank = static_cast<std::size_t>(ctx.rank());
    const std::size_t first = rank * (rows / n) + std::min(rank, rows % n);
    for (std::size_t i = 0; i < output.size(); ++i) ASSERT_EQ(output[i], all[first * 3 + i]);
  });
}

TEST_P(ContextRanks, AcceptsAsyncTensorsInAnyOrder) {
  run_ranks(GetParam(), [](Context& ctx) {
    constexpr std::size_t kTensors = 500;
    std::vector<std::vector<float>> tensors(kTensors);
    std::vector<std::size_t> order(kTensors);
    for (std::size_t t = 0; t < kTensors; ++t) {
      order[t] = t;
      tensors[t].resize(t % 37);
      for (std::size_t i = 0; i < tensors[t].size(); ++i)
        tensors[t][i] = value(ctx.rank(), i, static_cast<int>(t));
    }
    std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(ctx.rank()) + 5));
    std::vector<Handle> handles;
    for (std::size_t t : order)
      handles.push_back(ctx.allreduce_async(
          TensorView(tensors[t]), {.name = "t" + std::to_string(t), .op = ReduceOp::kSum}));
    for (const Handle& handle : handles) handle.wait();
    for (std::size_t t = 0; t < kTensors; ++t)
      for (std::size_t i = 0; i < tensors[t].size(); ++i) {
        float sum = 0;
        for (int r = 0; r < ctx.size(); ++r) sum += value(r, i, static_cast<int>(t));
        ASSERT_EQ(tensors[t][i], sum);
      }
    EXPECT_EQ(ctx.counters().tensors, kTensors);
    EXPECT_LE(ctx.counters().collectives, kTensors);
  });
}

TEST(Context, UnnamedOperationsMatchInOrder) {
  run_ranks(3, [](Context& ctx) {
    for (int k = 0; k < 5; ++k) {
      std::vector<float> x(4, static_cast<float>(ctx.rank() + k));
      ctx.allreduce(TensorView(x), {.op = ReduceOp::kSum});
      EXPECT_EQ(x[3], 3.0f + 3.0f * static_cast<float>(k));
    }
  });
}

TEST(Context, BarrierWaitsForAllRanks) {
  for (int ranks : {2, 5}) {
    std::atomic<int> arrived{0};
    run_ranks(ranks, [&](Context& ctx) {
      for (int round = 1; round <= 20; ++round) {
        if (ctx.rank() == round % ctx.size())
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
        ++arrived;
        ctx.barrier({.name = "b"});
        EXPECT_GE(arrived.load(), round * ctx.size());
      }
    });
  }
}

TEST(Context, ThreadsMaySubmitConcurrently) {
  run_ranks(3, [](Context& ctx) {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 6; ++t)
      threads.emplace_back([&ctx, t] {
        for (int k = 0; k < 50; ++k) {
          std::vector<float> x(7, static_cast<float>(ctx.rank() * 10 + t));
          ctx.allreduce(TensorView(x),
                        {.name = "thread" + std::to_string(t), .op = ReduceOp::kMax});
          ASSERT_EQ(x[6], 20.0f + static_cast<float>(t));
        }
      });
  });
}

TEST(Context, SendsRepeatedNamesAsNumbers) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> x(10, 1.0f);
    const std::string name(200, 'n');
    const auto bytes_sent = [&] {
      const Counters counters = ctx.counters();
      EXPECT_EQ(counters.control_messages_sent, counters.node_messages_sent);  // one node
      return counters.control_bytes_sent;
    };
    std::uint64_t first = 0;
    std::uint64_t later = 0;
    for (int k = 0; k < 10; ++k) {
      const std::uint64_t before = bytes_sent();
      ctx.allreduce(TensorView(x), {.name = name});
      (k == 0 ? first : later) = bytes_sent() - before;
    }
    EXPECT_GT(first, 200u);
    EXPECT_LT(later, 32u);
  });
}

TEST(Context, SupportsMoreNamesThanCacheHolds) {
  RunOptions options;
  options.environment = {"HORO_CACHE_CAPACITY=5"};
  run_ranks(
      3,
      [](Context& ctx) {
        std::mt19937 random(3);  // the same choices on every rank
        for (int k = 0; k < 300; ++k) {
          std::vector<float> x(3, static_cast<float>(ctx.rank()));
          ctx.allreduce(TensorView(x),
                        {.name = "n" + std::to_string(random() % 9), .op = ReduceOp::kSum});
          ASSERT_EQ(x[0], 3.0f);
        }
      },
      options);
}

TEST(Context, SendsNothingWhenIdle) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> x(3);
    ctx.allreduce(TensorView(x), {.name = "x"});
    const Counters before = ctx.counters();
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    EXPECT_EQ(ctx.counters().control_messages_sent, before.control_messages_sent);
    EXPECT_GT(before.control_messages_sent, 0u);
  });
}

TEST(Context, ResultsDoNotDependOnTiming) {
  const auto run = [](std::uint64_t seed, int ranks) {
    std::vector<std::vector<float>> results(static_cast<std::size_t>(ranks));
    RunOptions options;
    options.max_delay = std::chrono::microseconds(seed == 0 ? 0 : 300);
    options.seed = seed;
    run_ranks(
        ranks,
        [&](Context& ctx) {
          std::vector<std::vector<float>> tensors(40);
          std::vector<Handle> handles;
          for (std::size_t t = 0; t < tensors.size(); ++t) {
            tensors[t].resize(100 + t * 31);
            for (std::size_t i = 0; i < tensors[t].size(); ++i)
              tensors[t][i] = 1.0f / (value(ctx.rank(), i) + static_cast<float>(t));
            handles.push_back(
                ctx.allreduce_async(TensorView(tensors[t]), {.name = std::to_string(t)}));
          }
          for (const Handle& handle : handles) handle.wait();
          for (const auto& tensor : tensors)
            results[static_cast<std::size_t>(ctx.rank())].insert(
                results[static_cast<std::size_t>(ctx.rank())].end(), tensor.begin(), tensor.end());
        },
        options);
    for (const auto& result : results) EXPECT_EQ(result, results[0]);
    return results[0];
  };
  const std::vector<float> reference = run(0, 4);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) EXPECT_EQ(run(seed, 4), reference);
}

// Without HORO_BUCKET_BYTES=1 these operations are fused.
TEST(Context, HalvingResultsDoNotDependOnFusion) {
  const auto run = [](const std::string& bucket_bytes, const std::string& allreduce) {
    std::vector<float> results;
    RunOptions options;
    options.environment = {"HORO_RANKS_PER_NODE=2", "HORO_BUCKET_BYTES=" + bucket_bytes,
                           "HORO_ALLREDUCE=" + allreduce};
    run_ranks(
        6,
        [&](Context& ctx) {
          std::vector<std::vector<float>> tensors(30);
          std::vector<Handle> handles;
          for (std::size_t t = 0; t < tensors.size(); ++t) {
            tensors[t].resize(100 + t * 331);
            for (std::size_t i = 0; i < tensors[t].size(); ++i)
              tensors[t][i] = 1.0f / (value(ctx.rank(), i) + static_cast<float>(t));
          }
          for (std::size_t t = 0; t < tensors.size(); ++t)
            handles.push_back(
                ctx.allreduce_async(TensorView(tensors[t]), {.name = std::to_string(t)}));
          for (const Handle& handle : handles) handle.wait();
          if (ctx.rank() != 0) return;
          EXPECT_EQ(ctx.counters().collectives == tensors.size(), bucket_bytes == "1");
          for (const auto& tensor : tensors)
            results.insert(results.end(), tensor.begin(), tensor.end());
        },
        options);
    return results;
  };
  const std::vector<float> reference = run("1", "halving");
  EXPECT_EQ(run("64MiB", "halving"), reference);
  EXPECT_EQ(run("64MiB", "doubling"), reference);
}

TEST(Context, WorksOnSeveralNodes) {
  for (const char* per_node :
       {"HORO_RANKS_PER_NODE=1", "HORO_RANKS_PER_NODE=2", "HORO_RANKS_PER_NODE=3"}) {
    RunOptions options;
    options.environment = {per_node};
    run_ranks(
        5,
        [](Context& ctx) {
          EXPECT_GT(ctx.node_count(), 1);
          std::vector<float> x(20011);
          for (std::size_t i = 0; i < x.size(); ++i) x[i] = value(ctx.rank(), i);
          ctx.allreduce(TensorView(x), {.name = "x", .op = ReduceOp::kSum});
          for (std::size_t i = 0; i < x.size(); ++i)
            ASSERT_EQ(x[i], value(0, i) + value(1, i) + value(2, i) + value(3, i) + value(4, i));
        },
        options);
  }
}

}  // namespace
}  // namespace horo
