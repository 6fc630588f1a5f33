#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <mutex>
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

// How many steps a rank has data for.
int steps_of(int rank) { return 3 + rank * 2 % 7; }

template <typename T>
T value(int rank, int step, std::size_t i) {
  const auto positive = static_cast<T>(1 + (rank + step + static_cast<int>(i)) % 3);
  return i % 2 == 0 || std::is_unsigned_v<T> ? positive : static_cast<T>(-positive);
}

template <typename T>
T expected(ReduceOp op, int step, std::size_t i, int ranks) {
  T result{};
  int live = 0;
  for (int r = 0; r < ranks; ++r) {
    if (steps_of(r) <= step) continue;
    const T own = value<T>(r, step, i);
    if (++live == 1)
      result = own;
    else if (op == ReduceOp::kMin)
      result = std::min(result, own);
    else if (op == ReduceOp::kMax)
      result = std::max(result, own);
    else if (op == ReduceOp::kProduct)
      result = static_cast<T>(result * own);
    else
      result = static_cast<T>(result + own);
  }
  if (op != ReduceOp::kAverage) return result;
  if constexpr (std::is_floating_point_v<T>)
    return result * (T(1) / static_cast<T>(live));
  else
    return static_cast<T>(result / live);
}

template <typename T>
void train_unevenly(Context& ctx) {
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax,
                               ReduceOp::kProduct};
  for (int step = 0; step < steps_of(ctx.rank()); ++step) {
    std::vector<std::vector<T>> tensors;
    std::vector<Handle> handles;
    for (const ReduceOp op : kOps)
      for (const std::size_t count : {1ul, 33ul}) {
        tensors.emplace_back(count);
        for (std::size_t i = 0; i < count; ++i) tensors.back()[i] = value<T>(ctx.rank(), step, i);
        handles.push_back(ctx.allreduce_async(
            TensorView(tensors.back()),
            {.name = std::string(name_of(op)) + std::to_string(count), .op = op}));
      }
    for (std::size_t k = 0; k < handles.size(); ++k) {
      handles[k].wait();
      for (std::size_t i = 0; i < tensors[k].size(); ++i)
        ASSERT_EQ(tensors[k][i], expected<T>(kOps[k / 2], step, i, ctx.size()))
            << name_of(kOps[k / 2]) << " step " << step << " index " << i;
    }
  }
  const int last = ctx.join();
  std::vector<std::int32_t> last_ranks(static_cast<std::size_t>(ctx.size()));
  std::vector<std::int32_t> own = {last};
  ctx.allgather(TensorView(own), TensorView(last_ranks), {.name = "lasts"});  // all works again
  for (const int other : last_ranks) ASSERT_EQ(other, last);
  ASSERT_GE(last, 0);
  ASSERT_LT(last, ctx.size());
}

TEST(Join, ResultsCoverContributingRanks) {
  for (const DynamicJob& job : dynamic_jobs())
    run_ranks(
        job.ranks,
        [](Context& ctx) {
          for (int epoch = 0; epoch < 2; ++epoch) {
            train_unevenly<float>(ctx);
            train_unevenly<std::int32_t>(ctx);
          }
        },
        job.options);
}

// Sums of these exceed float16, and some are its smallest positive value.
template <typename T>
void expect_average_of_those_present(Context& ctx, std::size_t per_rank) {
  const auto value_of = [&](int rank, std::size_t i) {
    if (i % 3 == 0) return static_cast<float>(T(65504.0f));
    const float scale = i % 3 == 1 ? 6e-8f : 0.37f;
    return static_cast<float>(T(scale * static_cast<float>(1 + rank * 5 + static_cast<int>(i))));
  };
  const int present = ctx.size() - 1;
  if (ctx.rank() < present) {
    std::vector<T> first(per_rank), second(2 * per_rank + 1);
    for (std::size_t i = 0; i < first.size(); ++i) first[i] = T(value_of(ctx.rank(), i));
    for (std::size_t i = 0; i < second.size(); ++i) second[i] = T(value_of(ctx.rank(), i + 1));
    const std::vector<NamedTensor> group = {{"a", TensorView(first)}, {"b", TensorView(second)}};
    ctx.allreduce_group(group, {.name = "half", .op = ReduceOp::kAverage});
    const auto expect = [&](T result, std::size_t i) {
      double sum = 0;
      for (int r = 0; r < present; ++r) sum += value_of(r, i);
      const double exact = sum / present;
      // The tolerance: one rounding to T, and those of float32.
      const double next = static_cast<float>(T(static_cast<float>(exact * (1 + 1e-6))));
      const double before = static_cast<float>(T(static_cast<float>(exact * (1 - 1e-6))));
      ASSERT_GE(static_cast<float>(result), before) << i;
      ASSERT_LE(static_cast<float>(result), next) << i;
    };
    for (std::size_t i = 0; i < first.size(); ++i) expect(first[i], i);
    for (std::size_t i = 0; i < second.size(); ++i) expect(second[i], i + 1);
  }
  (void)ctx.join();
}

TEST(Join, HalfPrecisionAveragesStayInRangeAndRoundOnce) {
  for (const DynamicJob& job : dynamic_jobs())
    if (job.ranks > 1)
      run_ranks(
          job.ranks,
          [](Context& ctx) {
            expect_average_of_those_present<Float16>(ctx, 17);
            expect_average_of_those_present<BFloat16>(ctx, 1000);
          },
          job.options);
}

TEST(Join, ReturnsLastRankToJoin) {
  for (int last = 0; last < 3; ++last)
    run_ranks(3, [&](Context& ctx) {
      if (ctx.rank() == last) std::this_thread::sleep_for(std::chrono::milliseconds(60));
      EXPECT_EQ(ctx.join(), last);
    });
}

TEST(Join, SupportsNewAndCachedNames) {
  run_ranks(3, [](Context& ctx) {
    std::vector<float> x(5, 1.0f);
    for (int k = 0; k < 3; ++k) ctx.allreduce(TensorView(x), {.name = "old", .op = ReduceOp::kMax});
    if (ctx.rank() != 2) {
      for (int k = 0; k < 3; ++k) {
        std::vector<float> y(7 + static_cast<std::size_t>(k), static_cast<float>(ctx.rank() + 1));
        ctx.allreduce(TensorView(y), {.name = "new" + std::to_string(k), .op = ReduceOp::kSum});
        EXPECT_EQ(y[6], 3.0f);
        ctx.allreduce(TensorView(x), {.name = "old", .op = ReduceOp::kMax});
      }
    }
    (void)ctx.join();
    // The caches of all ranks are still the same.
    for (int k = 0; k < 3; ++k) {
      std::vector<float> y(7 + static_cast<std::size_t>(k), 1.0f);
      ctx.allreduce(TensorView(y), {.name = "new" + std::to_string(k), .op = ReduceOp::kSum});
      EXPECT_EQ(y[0], 3.0f);
    }
  });
}

TEST(Join, GroupsContinueWithoutJoinedRank) {
  run_ranks(3, [](Context& ctx) {
    if (ctx.rank() != 1) {
      std::vector<float> a(4, 2.0f);
      std::vector<std::int64_t> b(3, ctx.rank() + 5);
      const std::vector<NamedTensor> group = {{"a", TensorView(a)}, {"b", TensorView(b)}};
      ctx.allreduce_group(group, {.op = ReduceOp::kAverage});
      EXPECT_EQ(a[3], 2.0f);
      EXPECT_EQ(b[2], 6);
    }
    (void)ctx.join();
  });
}

TEST(Join, UnsupportedOperationsNameJoinedRank) {
  for (const char* per_node : {"HORO_RANKS_PER_NODE=0", "HORO_RANKS_PER_NODE=1"}) {
    RunOptions options;
    options.environment = {per_node};
    run_ranks(
        3,
        [](Context& ctx) {
          if (ctx.rank() != 2) {
            const auto text_of = [&](const auto& operation) -> std::string {
              try {
                operation();
              } catch (const MismatchError& error) {
                return error.what();
              }
              return "nothing was thrown";
            };
            std::vector<float> x(6, 1.0f), y(18);
            const auto names_rank = AllOf(HasSubstr("rank 2 (host"), HasSubstr("has joined"));
            EXPECT_THAT(text_of([&] { ctx.broadcast(TensorView(x), {.name = "w"}); }),
                        AllOf(names_rank, HasSubstr("'w'")));
            EXPECT_THAT(
                text_of([&] { ctx.allgather(TensorView(x), TensorView(y), {.name = "g"}); }),
                names_rank);
            EXPECT_THAT(text_of([&] { ctx.barrier({.name = "b"}); }), names_rank);
            EXPECT_THAT(text_of([&] {
                          ctx.allreduce(TensorView(x), {.name = "a", .op = ReduceOp::kAdasum});
                        }),
                        names_rank);
            ctx.allreduce(TensorView(x), {.name = "a", .op = ReduceOp::kSum});
            EXPECT_EQ(x[0], 2.0f);
          }
          (void)ctx.join();
          ctx.barrier({.name = "b"});
        },
        options);
  }
}

TEST(Join, NamesRankThatShutsDownInstead) {
  for (const char* per_node : {"HORO_RANKS_PER_NODE=0", "HORO_RANKS_PER_NODE=1"}) {
    RunOptions options;
    options.environment = {per_node};
    run_ranks(
        3,
        [](Context& ctx) {
          std::vector<float> x(4);
          for (int k = 0; k < 6; ++k) ctx.allreduce(TensorView(x), {.name = "x"});
          if (ctx.rank() == 1) return;
          try {
            ctx.rank() == 0 ? (void)ctx.join() : ctx.allreduce(TensorView(x), {.name = "x"});
            ADD_FAILURE();
          } catch (const ShutdownError& error) {
            EXPECT_THAT(
                error.what(),
                AllOf(HasSubstr("rank 1 (host"), HasSubstr("has shut down after 6 operations"),
                      HasSubstr("call join() where ranks have different amounts")));
          }
        },
        options);
  }
}

TEST(Join, WaitsWhileOthersProgress) {
  RunOptions options;
  options.environment = {"HORO_TIMEOUT=400ms", "HORO_STALL_WARNING=100ms", "HORO_LOG_LEVEL=off"};
  run_ranks(
      2,
      [](Context& ctx) {
        for (int step = 0; ctx.rank() == 0 && step < 15; ++step) {
          std::vector<float> x(3, 1.0f);
          ctx.allreduce(TensorView(x), {.name = "x"});
          std::this_thread::sleep_for(std::chrono::milliseconds(60));
        }
        (void)ctx.join();
      },
      options);
}

TEST(Join, RejectsSubmissionsUntilItReturns) {
  run_ranks(2, [](Context& ctx) {
    if (ctx.rank() == 1) {
      std::jthread other([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        std::vector<float> x(3);
        EXPECT_THROW(ctx.allreduce(TensorView(x), {.name = "x"}), InvalidArgument);
      });
      (void)ctx.join();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
      (void)ctx.join();
    }
  });
}

}  // namespace
}  // namespace horo
