// DeviceOperations on the stand-in for a GPU: streams are threads, which run late at random.
#include "horo/device_operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <numeric>
#include <optional>
#include <random>

#include "horo/testing.h"
#include "tests/api/device_operations_rank.h"
#include "tests/api/error_text.h"

namespace horo {
namespace {

using namespace std::chrono_literals;
using namespace device_operations_test;
using ::testing::HasSubstr;
using testing::run_ranks;

class DeviceOperationsRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, DeviceOperationsRanks, ::testing::Values(1, 2, 3, 4));

TEST_P(DeviceOperationsRanks, AllreducesInAnyOrderFollowStreamOrder) {
  run_ranks(GetParam(), [](Context& ctx) {
    constexpr std::size_t kSizes[] = {1, 0, 129, 20000, 5003, 64, 4096, 7, 2500};
    constexpr std::size_t kTensors = std::size(kSizes);
    Rank rank(ctx);
    // Some tensors do not fit into the buffer, several small ones do.
    std::optional<DeviceOperations> ops(
        std::in_place, ctx, rank.device(),
        DeviceOperationsOptions{.buffer_bytes = 16384, .chunk_bytes = 5000});
    std::vector<const DeviceArray<float>*> arrays;
    for (std::size_t t = 0; t < kTensors; ++t) arrays.push_back(&rank.tensor(t, kSizes[t]));
    std::mt19937 random(static_cast<unsigned>(ctx.rank()) + 5);
    std::vector<std::size_t> order(kTensors);
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (int step = 0; step < 4; ++step) {
      std::shuffle(order.begin(), order.end(), random);
      std::vector<DeviceHandle> handles(kTensors);
      for (const std::size_t t : order) {
        rank.make(*arrays[t], t + static_cast<std::size_t>(step));
        handles[t] = ops->allreduce_async(
            view(*arrays[t]),
            {.name = "t" + std::to_string(t), .op = ReduceOp::kSum, .stream = rank.native()});
      }
      for (std::size_t t = 0; t < kTensors; ++t) {
        handles[t].wait_on(rank.native());
        rank.expect(*arrays[t], [n = ctx.size(), t, step](std::size_t i) {
          return sum_of(n, t + static_cast<std::size_t>(step), i);
        });
      }
    }
    rank.stream().synchronize();
    const std::uint64_t before = ctx.counters().tensors;
    ops.reset();
    EXPECT_LE(before, 4 * kTensors + 1);
    EXPECT_EQ(ctx.counters().tensors, 4 * kTensors + 1);  // + 1: the construction
  });
}

TEST_P(DeviceOperationsRanks, ComputeEveryOperationAndFactor) {
  run_ranks(GetParam(), [](Context& ctx) {
    Rank rank(ctx, 2);
    DeviceOperations ops(ctx, rank.device());
    const int n = ctx.size();
    struct Case {
      ReduceOp op;
      double before, after;
    };
    for (const auto& [op, before, after] :
         {Case{ReduceOp::kSum, 2, 0.5}, Case{ReduceOp::kAverage, 1, 4}, Case{ReduceOp::kMin, 1, 1},
          Case{ReduceOp::kMax, 0.5, 1}, Case{ReduceOp::kProduct, 1, 1}}) {
      const auto& array = rank.tensor(1, 301);
      ops.allreduce(view(array),
                    {.op = op, .prescale = before, .postscale = after, .stream = rank.native()});
      for (std::size_t i = 0; i < array.size(); ++i) {
        float expected = value(0, 1, i) * static_cast<float>(before);
        for (int r = 1; r < n; ++r) {
          const float x = value(r, 1, i) * static_cast<float>(before);
          if (op == ReduceOp::kSum || op == ReduceOp::kAverage) expected += x;
          if (op == ReduceOp::kMin) expected = std::min(expected, x);
          if (op == ReduceOp::kMax) expected = std::max(expected, x);
          if (op == ReduceOp::kProduct) expected *= x;
        }
        expected *= static_cast<float>(after);
        if (op == ReduceOp::kAverage) expected /= static_cast<float>(n);
        ASSERT_FLOAT_EQ(array.data()[i], expected) << "index " << i;
      }
    }
  });
}

template <typename T>
void reduce_type(Context& ctx, Rank& rank, DeviceOperations& ops) {
  DeviceArray<T> array(rank.device(), 1001), shard(rank.device(), ctx.shard_rows(143) * 7);
  device::submit(rank.stream(), [data = array.data(), r = ctx.rank()] {
    for (std::size_t i = 0; i < 1001; ++i) data[i] = static_cast<T>(value(r, 0, i));
  });
  const DeviceHandle scattered = ops.reduce_scatter_async(
      TensorView(array.data(), Shape{143, 7}), TensorView(shard.data(), Shape{shard.size() / 7, 7}),
      {.name = "s", .op = ReduceOp::kSum, .stream = rank.native()});
  scattered.wait_on(rank.native());
  ops.allreduce(TensorView(array.data(), Shape{1001}),
                {.name = "t", .op = ReduceOp::kSum, .stream = rank.native()});
  std::size_t first = 0;
  for (int r = 0; r < ctx.rank(); ++r)
    first += (143 / static_cast<std::size_t>(ctx.size()) +
              (static_cast<std::size_t>(r) < 143 % static_cast<std::size_t>(ctx.size()) ? 1 : 0)) *
             7;
  for (std::size_t i = 0; i < 1001; ++i)
    ASSERT_EQ(static_cast<float>(array.data()[i]), sum_of(ctx.size(), 0, i)) << i;
  for (std::size_t i = 0; i < shard.size(); ++i)
    ASSERT_EQ(static_cast<float>(shard.data()[i]), sum_of(ctx.size(), 0, first + i)) << i;
}

TEST_P(DeviceOperationsRanks, ReduceEveryType) {
  run_ranks(GetParam(), [](Context& ctx) {
    Rank rank(ctx, 3);
    DeviceOperations ops(ctx, rank.device());
    reduce_type<float>(ctx, rank, ops);
    reduce_type<double>(ctx, rank, ops);
    reduce_type<Float16>(ctx, rank, ops);
    reduce_type<BFloat16>(ctx, rank, ops);
    reduce_type<std::int8_t>(ctx, rank, ops);
    reduce_type<std::uint8_t>(ctx, rank, ops);
    reduce_type<std::int32_t>(ctx, rank, ops);
    reduce_type<std::int64_t>(ctx, rank, ops);
  });
}

TEST_P(DeviceOperationsRanks, DeliverRowsInRankOrder) {
  run_ranks(GetParam(), [](Context& ctx) {
    constexpr std::size_t kWidth = 3;
    Rank rank(ctx, 4);
    DeviceOperations ops(ctx, rank.device());
    const auto n = static_cast<std::size_t>(ctx.size());
    const auto own = static_cast<std::size_t>(ctx.rank());
    const auto rows_of = [](std::size_t r) { return (r * 5 + 2) % 7; };
    const auto split = [](std::size_t from, std::size_t to) { return (from * 2 + to * 3) % 4; };
    std::size_t all = 0, in = 0, out = 0;
    for (std::size_t r = 0; r < n; ++r) {
      all += rows_of(r);
      out += split(own, r);
      in += split(r, own);
    }
    const auto& part = rank.tensor(0, rows_of(own) * kWidth);
    const auto& sent = rank.tensor(9, out * kWidth);
    const auto& broadcast = rank.tensor(5, 77);
    const DeviceArray<float> whole(rank.device(), all * kWidth);
    const DeviceArray<float> received(rank.device(), in * kWidth);
    std::vector<std::size_t> splits;
    for (std::size_t r = 0; r < n; ++r) splits.push_back(split(own, r));

    const int root = ctx.size() - 1;
    // Even and odd ranks submit in different orders.
    std::optional<DeviceHandle> of_broadcast;
    const auto submit_broadcast = [&] {
      of_broadcast = ops.broadcast_async(view(broadcast),
                                         {.name = "b", .root = root, .stream = rank.native()});
    };
    if (own % 2 == 0) submit_broadcast();
    const DeviceHandle gathered = ops.allgather_async(rows(part, kWidth), rows(whole, kWidth),
                                                      {.name = "g", .stream = rank.native()});
    const DeviceAlltoallHandle exchanged =
        ops.alltoall_async(rows(sent, kWidth), rows(received, kWidth),
                           {.name = "a", .splits = splits, .stream = rank.native()});
    if (own % 2 == 1) submit_broadcast();
    const std::vector<std::size_t> received_splits = exchanged.received_splits();
    for (std::size_t r = 0; r < n; ++r) EXPECT_EQ(received_splits[r], split(r, own));
    for (const DeviceHandle& handle : {gathered, DeviceHandle(exchanged), *of_broadcast}) {
      handle.wait();
      EXPECT_TRUE(handle.is_done());
    }

    for (std::size_t i = 0; i < broadcast.size(); ++i)
      ASSERT_EQ(broadcast.data()[i], value(root, 5, i));
    std::size_t at = 0;
    for (std::size_t r = 0; r < n; ++r)
      for (std::size_t i = 0; i < rows_of(r) * kWidth; ++i, ++at)
        ASSERT_EQ(whole.data()[at], value(static_cast<int>(r), 0, i));
    at = 0;
    for (std::size_t r = 0; r < n; ++r) {
      std::size_t before = 0;
      for (std::size_t to = 0; to < own; ++to) before += split(r, to);
      for (std::size_t i = 0; i < split(r, own) * kWidth; ++i, ++at)
        ASSERT_EQ(received.data()[at], value(static_cast<int>(r), 9, before * kWidth + i));
    }
  });
}

TEST(DeviceOperations, OrderProducerAndConsumerStreams) {
  run_ranks(2, [](Context& ctx) {
    Rank rank(ctx, 5);
    DeviceOperations ops(ctx, rank.device());
    const DeviceArray<float> array(rank.device(), 1000);
    const auto producer = rank.device().make_stream(Priority::kNormal);
    const auto consumer = rank.device().make_stream(Priority::kNormal);
    std::promise<void> made;
    device::submit(*producer, [&, is_made = made.get_future().share()] {
      is_made.wait_for(30s);
      std::fill_n(array.data(), array.size(), static_cast<float>(ctx.rank() + 1));
    });
    const DeviceHandle handle = ops.allreduce_async(
        view(array), {.name = "x", .op = ReduceOp::kSum, .stream = producer->native()});
    handle.wait_on(consumer->native());
    EXPECT_FALSE(handle.is_done()) << "the host waited for the device";
    made.set_value();
    device::submit(*consumer, [&] {
      for (std::size_t i = 0; i < array.size(); ++i) ASSERT_EQ(array.data()[i], 3);
    });
    consumer->synchronize();
    handle.wait();
    EXPECT_TRUE(handle.is_done());
  });
}

TEST(DeviceOperations, OfSetsAndJobCoexist) {
  run_ranks(3, [](Context& ctx) {
    ProcessSet outer = ctx.new_process_set({0, 2});
    Rank rank(ctx, 9);
    DeviceOperations all(ctx, rank.device()), others(ctx, rank.device());
    std::optional<DeviceOperations> of_outer;
    if (outer.includes_me()) of_outer.emplace(outer, rank.device());
    for (int step = 0; step < 3; ++step) {
      const auto &x = rank.tensor(0, 100), &y = rank.tensor(1, 200), &z = rank.tensor(2, 300);
      const auto reduce = [&](DeviceOperations& ops, const DeviceArray<float>& array,
                              const char* name) {
        ops.allreduce_async(view(array),
                            {.name = name, .op = ReduceOp::kSum, .stream = rank.native()})
            .wait_on(rank.native());
      };
      reduce(all, x, "x");
      if (of_outer) reduce(*of_outer, z, "x");
      reduce(others, y, "y");
      rank.expect(x, [](std::size_t i) { return sum_of(3, 0, i); });
      rank.expect(y, [](std::size_t i) { return sum_of(3, 1, i); });
      if (of_outer) rank.expect(z, [](std::size_t i) { return value(0, 2, i) + value(2, 2, i); });
      rank.stream().synchronize();
    }
    // The ranks submit 'x' to different DeviceOperations.
    const auto& x = rank.tensor(0, 10);
    EXPECT_THAT(error_text<MismatchError>([&] {
                  (ctx.rank() == 0 ? others : all)
                      .allreduce(view(x), {.name = "x", .stream = rank.native()});
                }),
                HasSubstr("they belong to different DeviceOperations"));
  });
}

}  // namespace
}  // namespace horo
