#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/support/sanitizer.h"

namespace horo {
namespace {

using testing::run_ranks;
using testing::RunOptions;

// The number of rows that `from` sends to `to`. It differs for most pairs and is 0 for some.
std::size_t rows_between(int from, int to) {
  return static_cast<std::size_t>((from * 2 + to * 3) % 5) * 3;
}

// A value that differs by pair, index and round.
std::int32_t value(int from, int to, std::size_t i, int round = 0) {
  return ((round * 16 + from) * 16 + to) * 10000 + static_cast<int>(i);
}

std::vector<std::size_t> splits_of(int rank, int size) {
  std::vector<std::size_t> splits;
  for (int to = 0; to < size; ++to) splits.push_back(rows_between(rank, to));
  return splits;
}

constexpr std::size_t kRow = 5;

std::vector<std::int32_t> make_input(int rank, int size, int round = 0) {
  std::vector<std::int32_t> input;
  for (int to = 0; to < size; ++to)
    for (std::size_t i = 0; i < rows_between(rank, to) * kRow; ++i)
      input.push_back(value(rank, to, i, round));
  return input;
}

std::vector<std::int32_t> expected_output(int rank, int size, int round = 0) {
  std::vector<std::int32_t> output;
  for (int from = 0; from < size; ++from)
    for (std::size_t i = 0; i < rows_between(from, rank) * kRow; ++i)
      output.push_back(value(from, rank, i, round));
  return output;
}

void exchange_uneven_rows(Context& ctx) {
  std::vector<std::int32_t> input = make_input(ctx.rank(), ctx.size());
  const std::vector<std::int32_t> before = input;
  const std::vector<std::int32_t> expected = expected_output(ctx.rank(), ctx.size());
  std::vector<std::int32_t> output(expected.size(), -1);
  const auto received = ctx.alltoall(TensorView(input.data(), {input.size() / kRow, kRow}),
                                     TensorView(output.data(), {output.size() / kRow, kRow}),
                                     {.name = "a", .splits = splits_of(ctx.rank(), ctx.size())});
  EXPECT_EQ(output, expected);
  EXPECT_EQ(input, before);
  ASSERT_EQ(received.size(), static_cast<std::size_t>(ctx.size()));
  for (int from = 0; from < ctx.size(); ++from)
    EXPECT_EQ(received[static_cast<std::size_t>(from)], rows_between(from, ctx.rank()));
}

class AlltoallRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(OneToNine, AlltoallRanks,
                         ::testing::ValuesIn(tested_rank_counts({1, 2, 3, 4, 7, 8, 9})));

TEST_P(AlltoallRanks, HandlesUnevenAndZeroRows) { run_ranks(GetParam(), exchange_uneven_rows); }

TEST_P(AlltoallRanks, SplitsRowsEvenlyByDefault) {
  run_ranks(GetParam(), [](Context& ctx) {
    const auto n = static_cast<std::size_t>(ctx.size());
    for (const std::size_t rows : {std::size_t{0}, n, 3 * n, 2 * n + 1}) {
      const auto first_row = [&](std::size_t r) { return r * (rows / n) + std::min(r, rows % n); };
      std::vector<double> input(rows);
      for (std::size_t i = 0; i < rows; ++i) input[i] = ctx.rank() * 1000 + static_cast<double>(i);
      const std::size_t share = ctx.shard_rows(rows);
      std::vector<double> output(share * n);
      const auto received = ctx.alltoall(TensorView(input), TensorView(output), {.name = "even"});
      EXPECT_EQ(received, std::vector<std::size_t>(n, share));
      const std::size_t own = first_row(static_cast<std::size_t>(ctx.rank()));
      for (std::size_t from = 0; from < n; ++from)
        for (std::size_t i = 0; i < share; ++i)
          ASSERT_EQ(output[from * share + i], static_cast<double>(from * 1000 + own + i));
    }
  });
}

TEST_P(AlltoallRanks, KeepsExtraOutputRows) {
  run_ranks(GetParam(), [](Context& ctx) {
    std::vector<std::int32_t> input = make_input(ctx.rank(), ctx.size());
    std::vector<std::int32_t> expected = expected_output(ctx.rank(), ctx.size());
    expected.resize(expected.size() + 4 * kRow, -1);
    std::vector<std::int32_t> output(expected.size(), -1);
    (void)ctx.alltoall(TensorView(input.data(), {input.size() / kRow, kRow}),
                       TensorView(output.data(), {output.size() / kRow, kRow}),
                       {.splits = splits_of(ctx.rank(), ctx.size())});
    EXPECT_EQ(output, expected);
  });
}

TEST(Alltoall, MixesWithOtherOperationsInAnyOrder) {
  RunOptions options;
  options.max_delay = std::chrono::microseconds(200);
  run_ranks(
      4,
      [](Context& ctx) {
        constexpr int kRounds = 40;
        std::vector<std::vector<std::int32_t>> inputs, outputs;
        std::vector<std::vector<float>> sums(kRounds, std::vector<float>(33, 1.0f));
        std::vector<int> order;
        for (int round = 0; round < kRounds; ++round) {
          inputs.push_back(make_input(ctx.rank(), ctx.size(), round));
          outputs.emplace_back(expected_output(ctx.rank(), ctx.size()).size());
          order.push_back(round);
        }
        std::shuffle(order.begin(), order.end(),
                     std::mt19937(static_cast<unsigned>(ctx.rank()) + 3));
        std::vector<AlltoallHandle> handles(kRounds);
        std::vector<Handle> others;
        for (const int round : order) {
          const auto k = static_cast<std::size_t>(round);
          handles[k] = ctx.alltoall_async(
              TensorView(inputs[k].data(), {inputs[k].size() / kRow, kRow}),
              TensorView(outputs[k].data(), {outputs[k].size() / kRow, kRow}),
              {.name = "a" + std::to_string(round), .splits = splits_of(ctx.rank(), ctx.size())});
          others.push_back(ctx.allreduce_async(
              TensorView(sums[k]), {.name = "s" + std::to_string(round), .op = ReduceOp::kSum}));
        }
        for (const Handle& other : others) other.wait();
        for (int round = 0; round < kRounds; ++round) {
          const auto k = static_cast<std::size_t>(round);
          EXPECT_EQ(handles[k].received_splits()[1], rows_between(1, ctx.rank()));
          EXPECT_EQ(outputs[k], expected_output(ctx.rank(), ctx.size(), round));
          EXPECT_EQ(sums[k][32], 4.0f);
        }
      },
      options);
}

TEST(Alltoall, WorksOnSeveralNodes) {
  for (const char* setting : {"HORO_RANKS_PER_NODE=1", "HORO_RANKS_PER_NODE=2",
                              "HORO_RANKS_PER_NODE=3", "HORO_ALGORITHM=ring"}) {
    RunOptions options;
    options.environment = {setting};
    run_ranks(5, exchange_uneven_rows, options);
  }
}

}  // namespace
}  // namespace horo
