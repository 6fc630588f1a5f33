// Named operations between processes, on one node and on emulated nodes.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <random>

#include "horo/horo.h"
#include "horo/mpi.h"

namespace horo {
namespace {

class MpiNamedOperations : public ::testing::TestWithParam<int> {
 protected:
  MpiNamedOperations() { setenv("HORO_RANKS_PER_NODE", std::to_string(GetParam()).c_str(), 1); }
  ~MpiNamedOperations() override { unsetenv("HORO_RANKS_PER_NODE"); }
};
INSTANTIATE_TEST_SUITE_P(Nodes, MpiNamedOperations, ::testing::Values(0, 1, 2));

TEST_P(MpiNamedOperations, AcceptsTensorsInAnyOrder) {
  Context ctx = init(MPI_COMM_WORLD);
  constexpr std::size_t kTensors = 200;
  std::mt19937 random(static_cast<unsigned>(ctx.rank()) + 3);
  for (int step = 0; step < 5; ++step) {
    std::vector<std::vector<float>> tensors(kTensors);
    std::vector<std::size_t> order(kTensors);
    for (std::size_t t = 0; t < kTensors; ++t) {
      order[t] = t;
      tensors[t].assign(t % 23, static_cast<float>(ctx.rank() + static_cast<int>(t)));
    }
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Handle> handles;
    for (const std::size_t t : order)
      handles.push_back(ctx.allreduce_async(
          TensorView(tensors[t]), {.name = "t" + std::to_string(t), .op = ReduceOp::kMax}));
    for (const Handle& handle : handles) handle.wait();
    for (std::size_t t = 0; t < kTensors; ++t)
      for (const float x : tensors[t])
        ASSERT_EQ(x, static_cast<float>(ctx.size() - 1 + static_cast<int>(t)));
  }
  if (ctx.node_count() == 1) {
    EXPECT_EQ(ctx.counters().control_messages_sent, ctx.counters().node_messages_sent);
  }
}

TEST_P(MpiNamedOperations, GroupsObjectsAndCallbacks) {
  Context ctx = init(MPI_COMM_WORLD);
  std::vector<float> a(1001, static_cast<float>(ctx.rank()));
  std::vector<std::int64_t> b(7, ctx.rank() + 1);
  const std::vector<NamedTensor> group = {{"a", TensorView(a)}, {"b", TensorView(b)}};
  ctx.allreduce_group(group, {.op = ReduceOp::kMax});
  EXPECT_EQ(a[1000], static_cast<float>(ctx.size() - 1));
  EXPECT_EQ(b[6], ctx.size());
  b.assign(7, ctx.rank() * 9);
  ctx.broadcast_group(group, {.root = ctx.size() - 1});
  EXPECT_EQ(b[0], (ctx.size() - 1) * 9);
  const auto own = static_cast<std::size_t>(ctx.rank());
  const auto objects = ctx.allgather_object(std::vector<std::byte>(own, std::byte{7}));
  for (std::size_t r = 0; r < objects.size(); ++r) EXPECT_EQ(objects[r].size(), r);
  std::promise<bool> is_good;
  ctx.allreduce_async(TensorView(a), {.name = "a"}).then([&](const std::exception_ptr& error) {
    is_good.set_value(error == nullptr);
  });
  EXPECT_TRUE(is_good.get_future().get());
}

TEST_P(MpiNamedOperations, RanksWithUnequalDataJoin) {
  Context ctx = init(MPI_COMM_WORLD);
  for (int step = 0; step < 3 + 2 * ctx.rank(); ++step) {
    std::vector<double> x(33, static_cast<double>(ctx.rank() + 1));
    ctx.allreduce(TensorView(x), {.name = "x", .op = ReduceOp::kAverage});
    double sum = 0;
    int live = 0;
    for (int r = 0; r < ctx.size(); ++r) {
      if (step >= 3 + 2 * r) continue;
      sum += r + 1;
      ++live;
    }
    ASSERT_DOUBLE_EQ(x[32], sum / live);
  }
  const int last = ctx.join();
  EXPECT_EQ(last, ctx.size() - 1);
}

}  // namespace
}  // namespace horo
