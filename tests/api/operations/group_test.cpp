// Groups and objects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/api/dynamic_jobs.h"

namespace horo {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;

// Tensors of several types and sizes, including 0.
struct Parameters {
  explicit Parameters(int rank, std::size_t count = 30) {
    for (std::size_t t = 0; t < count; ++t) {
      floats.emplace_back(t * 3 % 41);
      doubles.emplace_back(t % 7);
      for (std::size_t i = 0; i < floats[t].size(); ++i)
        floats[t][i] = static_cast<float>((rank + 1) * 100 + static_cast<int>(t + i));
      for (std::size_t i = 0; i < doubles[t].size(); ++i)
        doubles[t][i] = (rank + 1) * 1000.0 + static_cast<double>(t * i);
    }
    for (std::size_t t = 0; t < count; ++t) {
      views.push_back({"f" + std::to_string(t), TensorView(floats[t])});
      views.push_back({"d" + std::to_string(t), TensorView(doubles[t])});
    }
  }
  std::vector<std::vector<float>> floats;
  std::vector<std::vector<double>> doubles;
  std::vector<NamedTensor> views;
};

TEST(Groups, AllreduceTakesOneLaunchPerType) {
  for (const DynamicJob& job : dynamic_jobs())
    run_ranks(
        job.ranks,
        [](Context& ctx) {
          for (int step = 0; step < 3; ++step) {
            Parameters own(ctx.rank());
            std::vector<Parameters> all;
            for (int r = 0; r < ctx.size(); ++r) all.emplace_back(r);
            const Counters before = ctx.counters();
            ctx.allreduce_group(own.views, {.op = ReduceOp::kSum});
            EXPECT_EQ(ctx.counters().collectives - before.collectives, 1u);
            EXPECT_EQ(ctx.counters().tensors - before.tensors, own.views.size());
            for (std::size_t t = 0; t < own.floats.size(); ++t) {
              for (std::size_t i = 0; i < own.floats[t].size(); ++i) {
                float sum = 0;
                for (const Parameters& each : all) sum += each.floats[t][i];
                ASSERT_EQ(own.floats[t][i], sum);
              }
              for (std::size_t i = 0; i < own.doubles[t].size(); ++i) {
                double sum = 0;
                for (const Parameters& each : all) sum += each.doubles[t][i];
                ASSERT_EQ(own.doubles[t][i], sum);
              }
            }
          }
        },
        job.options);
}

TEST(Groups, BroadcastOf300MixedTensorsIsOneLaunch) {
  for (const DynamicJob& job : dynamic_jobs())
    run_ranks(
        job.ranks,
        [](Context& ctx) {
          for (int root = 0; root < ctx.size(); ++root) {
            Parameters own(ctx.rank(), 150);
            const Parameters expected(root, 150);
            const Counters before = ctx.counters();
            ctx.broadcast_group_async(own.views, {.name = "parameters", .root = root}).wait();
            EXPECT_EQ(ctx.counters().collectives - before.collectives, 1u);
            EXPECT_EQ(own.floats, expected.floats);
            EXPECT_EQ(own.doubles, expected.doubles);
          }
        },
        job.options);
}

TEST(Groups, DuplicateNameSubmitsNothing) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> a(3, 1.0f), b(3, 2.0f), c(3, 3.0f);
    const std::vector<NamedTensor> group = {
        {"a", TensorView(a)}, {"b", TensorView(b)}, {"c", TensorView(c)}};
    if (ctx.rank() == 0) {
      const Handle earlier =
          ctx.allreduce_async(TensorView(b), {.name = "b", .op = ReduceOp::kSum});
      EXPECT_THROW(ctx.allreduce_group(group), InvalidArgument);
      // Nothing of the group is pending: its names are free.
      ctx.barrier();
      earlier.wait();
    } else {
      ctx.barrier();
      ctx.allreduce(TensorView(b), {.name = "b", .op = ReduceOp::kSum});
    }
    EXPECT_EQ(b[2], 4.0f);
    ctx.allreduce_group(group, {.op = ReduceOp::kSum});
    EXPECT_EQ(a[0], 2.0f);
    EXPECT_EQ(b[0], 8.0f);
    EXPECT_EQ(c[0], 6.0f);
  });
}

TEST(Groups, DifferentGroupsFailAllRanks) {
  run_ranks(3, [](Context& ctx) {
    std::vector<float> a(3), b(ctx.rank() == 2 ? 6 : 5);
    const std::vector<NamedTensor> group = {{"a", TensorView(a)}, {"b", TensorView(b)}};
    try {
      ctx.allreduce_group(group);
      ADD_FAILURE();
    } catch (const MismatchError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 2 (host thread-node-0)"));
      EXPECT_THAT(error.what(), HasSubstr("'b' as float32 [5] and 'b' as float32 [6]"));
    }
    try {
      ctx.rank() == 1 ? ctx.allreduce(TensorView(a), {.name = "a"}) : ctx.allreduce_group(group);
      ADD_FAILURE();
    } catch (const MismatchError& error) {
      EXPECT_THAT(error.what(), HasSubstr("one is a group"));
    }
    ctx.barrier();
  });
}

TEST(Groups, RejectsBadGroupsBeforeSubmission) {
  run_ranks(1, [](Context& ctx) {
    std::vector<float> x(3);
    EXPECT_THROW(ctx.allreduce_group({}), InvalidArgument);
    const std::vector<NamedTensor> unnamed = {{"x", TensorView(x)}, {"", TensorView(x)}};
    EXPECT_THROW(ctx.broadcast_group(unnamed), InvalidArgument);
    const std::vector<NamedTensor> twice = {
        {"x", TensorView(x)}, {"y", TensorView(x)}, {"x", TensorView(x)}};
    EXPECT_THROW(ctx.allreduce_group(twice), InvalidArgument);
    const std::vector<NamedTensor> good = {{"x", TensorView(x)}};
    EXPECT_THROW(ctx.broadcast_group(good, {.root = 1}), InvalidArgument);
    ctx.broadcast_group(good);
  });
}

std::vector<std::byte> bytes_of(int rank, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>(static_cast<std::size_t>(rank) * 37 + i);
  return bytes;
}

TEST(Objects, BroadcastTakesAtMostTwoCollectives) {
  for (const DynamicJob& job : dynamic_jobs())
    run_ranks(
        job.ranks,
        [](Context& ctx) {
          for (int root = 0; root < ctx.size(); ++root)
            for (const std::size_t size : {0ul, 1ul, 17ul, 70001ul}) {
              std::vector<std::byte> object = bytes_of(ctx.rank(), size + ctx.rank() * 5);
              const Counters before = ctx.counters();
              ctx.broadcast_object(object, {.root = root});
              EXPECT_LE(ctx.counters().collectives - before.collectives, 2u);
              EXPECT_EQ(object, bytes_of(root, size + static_cast<std::size_t>(root) * 5));
            }
        },
        job.options);
}

TEST(Objects, AllgatherReturnsObjectOfEveryRank) {
  for (const DynamicJob& job : dynamic_jobs())
    run_ranks(
        job.ranks,
        [](Context& ctx) {
          const auto size_of_rank = [](int rank, int step) {
            return static_cast<std::size_t>((rank * 7 + step * 13) % 20);
          };
          for (int step = 0; step < 4; ++step) {
            const Counters before = ctx.counters();
            const auto objects = ctx.allgather_object(
                bytes_of(ctx.rank(), size_of_rank(ctx.rank(), step)), {.name = "state"});
            EXPECT_LE(ctx.counters().collectives - before.collectives, 2u);
            ASSERT_EQ(objects.size(), static_cast<std::size_t>(ctx.size()));
            for (int r = 0; r < ctx.size(); ++r)
              EXPECT_EQ(objects[static_cast<std::size_t>(r)], bytes_of(r, size_of_rank(r, step)));
          }
        },
        job.options);
}

}  // namespace
}  // namespace horo
