// Named operations on tensors of the stand-in for a GPU: streams are threads, which run late at
// random.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <numeric>
#include <optional>
#include <random>

#include "horo/testing.h"
#include "tests/api/device/device_operations_rank.h"
#include "tests/api/error_text.h"

namespace horo {
namespace {

using namespace std::chrono_literals;
using namespace device_operations_test;
using ::testing::HasSubstr;
using testing::run_ranks;
using testing::RunOptions;

class OperationsOnDeviceRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, OperationsOnDeviceRanks, ::testing::Values(1, 2, 3, 4));

TEST_P(OperationsOnDeviceRanks, AllreducesInAnyOrderFollowStreamOrder) {
  RunOptions options;
  options.environment = {"HORO_BUCKET_BYTES=16384"};
  const auto reduce_all = [](Context& ctx) {
    constexpr std::size_t kSizes[] = {1, 0, 129, 20000, 5003, 64, 4096, 7, 2500};
    constexpr std::size_t kTensors = std::size(kSizes);
    Rank rank(ctx);
    // Some tensors do not fit into the buffer, several small ones do.
    std::vector<const DeviceArray<float>*> arrays;
    for (std::size_t t = 0; t < kTensors; ++t) arrays.push_back(&rank.tensor(t, kSizes[t]));
    std::mt19937 random(static_cast<unsigned>(ctx.rank()) + 5);
    std::vector<std::size_t> order(kTensors);
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (int step = 0; step < 4; ++step) {
      std::shuffle(order.begin(), order.end(), random);
      std::vector<Handle> handles(kTensors);
      for (const std::size_t t : order) {
        rank.make(*arrays[t], t + static_cast<std::size_t>(step));
        handles[t] = ctx.allreduce_async(
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
    EXPECT_LE(ctx.counters().tensors, 4 * kTensors);
    ctx.shutdown();
    EXPECT_EQ(ctx.counters().tensors, 4 * kTensors + 1);  // + 1: the shutdown
  };
  run_ranks(GetParam(), reduce_all, options);
}

TEST_P(OperationsOnDeviceRanks, ComputeEveryOperationAndFactor) {
  run_ranks(GetParam(), [](Context& ctx) {
    Rank rank(ctx, 2);
    const int n = ctx.size();
    struct Case {
      ReduceOp op;
      double before, after;
    };
    for (const auto& [op, before, after] :
         {Case{ReduceOp::kSum, 2, 0.5}, Case{ReduceOp::kAverage, 1, 4}, Case{ReduceOp::kMin, 1, 1},
          Case{ReduceOp::kMax, 0.5, 1}, Case{ReduceOp::kProduct, 1, 1}}) {
      const auto& array = rank.tensor(1, 301);
      ctx.allreduce(view(array),
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
void reduce_type(Context& ctx, Rank& rank) {
  DeviceArray<T> array(rank.device(), 1001), shard(rank.device(), ctx.shard_rows(143) * 7);
  device::submit(rank.stream(), [data = array.data(), r = ctx.rank()] {
    for (std::size_t i = 0; i < 1001; ++i) data[i] = static_cast<T>(value(r, 0, i));
  });
  const Handle scattered =
      ctx.reduce_scatter_async(array.view({143, 7}), shard.view({shard.size() / 7, 7}),
                               {.name = "s", .op = ReduceOp::kSum, .stream = rank.native()});
  scattered.wait_on(rank.native());
  ctx.allreduce(array.view(), {.name = "t", .op = ReduceOp::kSum, .stream = rank.native()});
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

// The values follow the work of the stream before the call. Each rank sends to the next one.
TEST_P(OperationsOnDeviceRanks, SendMessagesInStreamOrder) {
  run_ranks(GetParam(), [](Context& ctx) {
    Rank rank(ctx, 8);
    const int n = ctx.size(), from = (ctx.rank() + n - 1) % n;
    for (const std::size_t count : {0, 1, 512, 513, 20000}) {
      const auto& out = rank.tensor(0, count);
      const auto& in = rank.tensor(1, count);
      const Handle sent = ctx.send_async(
          view(out), {.name = "x", .to = (ctx.rank() + 1) % n, .stream = rank.native()});
      const Handle received =
          ctx.recv_async(view(in), {.name = "x", .from = from, .stream = rank.native()});
      received.wait();
      rank.expect(in, [from](std::size_t i) { return value(from, 0, i); });
      sent.wait();
      EXPECT_THROW(sent.wait_on(rank.native()), InvalidArgument);
      rank.make(out, 2);
      rank.stream().synchronize();
    }
  });
}

// One of the two tensors of a message may be in host memory.
TEST(OperationsOnDevice, MessagesConnectHostAndDeviceMemory) {
  run_ranks(2, [](Context& ctx) {
    Rank rank(ctx, 9);
    for (const std::size_t count : {3, 5000}) {
      const auto& array = rank.tensor(0, count);
      std::vector<float> host(count);
      if (ctx.rank() == 0) {
        ctx.send(view(array), {.name = "down", .to = 1, .stream = rank.native()});
        ctx.recv(view(array), {.name = "up", .from = 1, .stream = rank.native()});
        rank.expect(array, [](std::size_t i) { return 1 + value(0, 0, i); });
        rank.stream().synchronize();
      } else {
        ctx.recv(TensorView(host), {.name = "down", .from = 0});
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(host[i], value(0, 0, i));
        for (float& x : host) ++x;
        ctx.send(TensorView(host), {.name = "up", .to = 0});
      }
    }
    EXPECT_EQ(ctx.counters().messages_sent, 2u);
  });
}

TEST_P(OperationsOnDeviceRanks, ReduceEveryType) {
  run_ranks(GetParam(), [](Context& ctx) {
    Rank rank(ctx, 3);
    reduce_type<float>(ctx, rank);
    reduce_type<double>(ctx, rank);
    reduce_type<Float16>(ctx, rank);
    reduce_type<BFloat16>(ctx, rank);
    reduce_type<std::int8_t>(ctx, rank);
    reduce_type<std::uint8_t>(ctx, rank);
    reduce_type<std::int32_t>(ctx, rank);
    reduce_type<std::int64_t>(ctx, rank);
  });
}

TEST_P(OperationsOnDeviceRanks, DeliverRowsInRankOrder) {
  run_ranks(GetParam(), [](Context& ctx) {
    constexpr std::size_t kWidth = 3;
    Rank rank(ctx, 4);
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
    std::optional<Handle> of_broadcast;
    const auto submit_broadcast = [&] {
      of_broadcast = ctx.broadcast_async(view(broadcast),
                                         {.name = "b", .root = root, .stream = rank.native()});
    };
    if (own % 2 == 0) submit_broadcast();
    const Handle gathered = ctx.allgather_async(rows(part, kWidth), rows(whole, kWidth),
                                                {.name = "g", .stream = rank.native()});
    const AlltoallHandle exchanged =
        ctx.alltoall_async(rows(sent, kWidth), rows(received, kWidth),
                           {.name = "a", .splits = splits, .stream = rank.native()});
    if (own % 2 == 1) submit_broadcast();
    const std::vector<std::size_t> received_splits = exchanged.received_splits();
    for (std::size_t r = 0; r < n; ++r) EXPECT_EQ(received_splits[r], split(r, own));
    for (const Handle& handle : {gathered, Handle(exchanged), *of_broadcast}) {
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

TEST(OperationsOnDevice, OrderProducerAndConsumerStreams) {
  run_ranks(2, [](Context& ctx) {
    Rank rank(ctx, 5);
    const DeviceArray<float> array(rank.device(), 1000);
    const auto producer = rank.device().make_stream(Priority::kNormal);
    const auto consumer = rank.device().make_stream(Priority::kNormal);
    std::promise<void> made;
    device::submit(*producer, [&, is_made = made.get_future().share()] {
      is_made.wait_for(30s);
      std::fill_n(array.data(), array.size(), static_cast<float>(ctx.rank() + 1));
    });
    const Handle handle = ctx.allreduce_async(
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

TEST(OperationsOnDevice, OfSetsAndDevicesCoexist) {
  run_ranks(3, [](Context& ctx) {
    ProcessSet outer = ctx.new_process_set({0, 2});
    Rank rank(ctx, 9), other(ctx, 10);
    for (int step = 0; step < 3; ++step) {
      const auto &x = rank.tensor(0, 100), &y = other.tensor(1, 200), &z = rank.tensor(2, 300);
      const auto reduce = [&](Context& set, Rank& of, const DeviceArray<float>& array,
                              const char* name) {
        set.allreduce_async(view(array),
                            {.name = name, .op = ReduceOp::kSum, .stream = of.native()})
            .wait_on(of.native());
      };
      reduce(ctx, rank, x, "x");
      if (outer.includes_me()) reduce(outer, rank, z, "x");
      reduce(ctx, other, y, "y");
      rank.expect(x, [](std::size_t i) { return sum_of(3, 0, i); });
      other.expect(y, [](std::size_t i) { return sum_of(3, 1, i); });
      if (outer.includes_me())
        rank.expect(z, [](std::size_t i) { return value(0, 2, i) + value(2, 2, i); });
      rank.stream().synchronize();
      other.stream().synchronize();
    }
    // The ranks submit 'x' on different devices.
    Rank& used = ctx.rank() == 0 ? other : rank;
    EXPECT_THAT(error_text<MismatchError>([&] {
                  ctx.allreduce(view(used.tensor(0, 10)), {.name = "x", .stream = used.native()});
                }),
                HasSubstr("the ranks first used these devices in different orders"));
  });
}

TEST_P(OperationsOnDeviceRanks, ReduceAndBroadcastGroupsOfSeveralTypes) {
  RunOptions options;
  options.environment = {"HORO_BUCKET_BYTES=4096"};
  const auto run_groups = [](Context& ctx) {
    Rank rank(ctx, 14);
    const int n = ctx.size();
    const auto &a = rank.tensor(0, 3001), &b = rank.tensor(1, 5), &empty = rank.tensor(2, 0);
    const DeviceArray<std::int32_t> counts(rank.device(), 77);
    const auto fill = [&] {
      rank.make(a, 0);
      rank.make(b, 1);
      device::submit(rank.stream(), [data = counts.data(), r = ctx.rank()] {
        for (int i = 0; i < 77; ++i) data[i] = r * 100 + i;
      });
    };
    const std::vector<NamedTensor> group = {
        {"a", view(a)}, {"counts", counts.view()}, {"empty", view(empty)}, {"b", view(b)}};
    fill();
    ctx.allreduce_group_async(group, {.op = ReduceOp::kSum, .stream = rank.native()})
        .wait_on(rank.native());
    rank.expect(a, [n](std::size_t i) { return sum_of(n, 0, i); });
    rank.expect(b, [n](std::size_t i) { return sum_of(n, 1, i); });
    device::submit(rank.stream(), [data = counts.data(), n] {
      for (int i = 0; i < 77; ++i) ASSERT_EQ(data[i], 100 * n * (n - 1) / 2 + n * i);
    });
    fill();
    const int root = n - 1;
    ctx.broadcast_group(group, {.name = "all", .root = root, .stream = rank.native()});
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a.data()[i], value(root, 0, i));
    for (std::size_t i = 0; i < 77; ++i)
      ASSERT_EQ(counts.data()[i], root * 100 + static_cast<int>(i));
    ctx.check_equal(group, {.stream = rank.native()});
    rank.make(b, static_cast<std::size_t>(ctx.rank()));
    if (n > 1) {
      EXPECT_THAT(
          error_text<MismatchError>([&] { ctx.check_equal(group, {.stream = rank.native()}); }),
          HasSubstr("tensor 'b', float32 [5] differs between ranks"));
    }
  };
  run_ranks(GetParam(), run_groups, options);
}

TEST_P(OperationsOnDeviceRanks, ReduceToSeparateOutput) {
  run_ranks(GetParam(), [](Context& ctx) {
    Rank rank(ctx, 15);
    const auto &input = rank.tensor(0, 1003), &output = rank.tensor(1, 1003);
    for (int step = 0; step < 3; ++step) {
      rank.make(output, 5);
      ctx.allreduce_async(view(input), view(output),
                          {.name = "x", .op = ReduceOp::kSum, .stream = rank.native()})
          .wait_on(rank.native());
      rank.expect(output, [n = ctx.size()](std::size_t i) { return sum_of(n, 0, i); });
      rank.expect(input, [r = ctx.rank()](std::size_t i) { return value(r, 0, i); });
    }
    rank.stream().synchronize();
  });
}

TEST(OperationsOnDevice, CallbackRunsAfterDevice) {
  run_ranks(2, [](Context& ctx) {
    Rank rank(ctx, 16);
    const auto &x = rank.tensor(0, 1000), &y = rank.tensor(1, 10);
    std::promise<float> first, second;
    std::promise<std::string> failed;
    const Handle handle =
        ctx.allreduce_async(view(x), {.name = "x", .op = ReduceOp::kSum, .stream = rank.native()});
    handle.then([&](const std::exception_ptr& error) {
      EXPECT_EQ(error, nullptr);
      first.set_value(x.data()[7]);
    });
    EXPECT_EQ(first.get_future().get(), sum_of(2, 0, 7));
    handle.wait();
    handle.then([&](const std::exception_ptr&) { second.set_value(x.data()[8]); });
    EXPECT_EQ(second.get_future().get(), sum_of(2, 0, 8));
    const ReduceOp op = ctx.rank() == 0 ? ReduceOp::kSum : ReduceOp::kMax;
    ctx.allreduce_async(view(y), {.name = "y", .op = op, .stream = rank.native()})
        .then([&](const std::exception_ptr& error) {
          failed.set_value(error_text<MismatchError>([&] { std::rethrow_exception(error); }));
        });
    EXPECT_THAT(failed.get_future().get(), HasSubstr("the reduce operations differ"));
  });
}

// The program may destroy its device before the Context.
TEST(OperationsOnDevice, ContextKeepsDevice) {
  run_ranks(2, [](Context& ctx) {
    Rank rank(ctx, 17);
    ctx.allreduce(view(rank.tensor(0, 100)), {.stream = rank.native()});
  });
  run_ranks(1, [](Context& ctx) {
    HostDevice device;
    const DeviceArray<float> x(device, 3);
    EXPECT_THAT(error_text<InvalidArgument>([&] {
                  ctx.allreduce(x.view(),
                                {.stream = device.make_stream(Priority::kNormal)->native()});
                }),
                HasSubstr("a std::shared_ptr must own a device"));
  });
}

}  // namespace
}  // namespace horo
