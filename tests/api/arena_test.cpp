#include "horo/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "horo/horo.h"
#include "horo/runtime/runtime.h"
#include "horo/testing.h"
#include "tests/support/sanitizer.h"

namespace horo {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;

using Tensors = std::vector<std::pmr::vector<float>>;

constexpr std::size_t kCounts[] = {30011, 0, 1, 777, 12000};

Tensors make_tensors(std::pmr::memory_resource* memory) {
  Tensors tensors;
  for (const std::size_t count : kCounts) tensors.emplace_back(count, memory);
  return tensors;
}

std::vector<NamedTensor> named(Tensors& tensors) {
  std::vector<NamedTensor> result;
  for (auto& tensor : tensors)
    result.push_back({"t" + std::to_string(result.size()), TensorView(tensor)});
  return result;
}

float value(int rank, int step, std::size_t t, std::size_t i) {
  return static_cast<float>((rank + 1) * 5 + step + static_cast<int>(t)) +
         static_cast<float>(i % 53);
}

// Runs some steps and checks every value.
void expect_sums(Context& ctx, GradientSync& sync, Tensors& tensors) {
  for (int step = 0; step < 5; ++step) {
    for (std::size_t t = tensors.size(); t-- > 0;) {
      for (std::size_t i = 0; i < tensors[t].size(); ++i)
        tensors[t][i] = value(ctx.rank(), step, t, i);
      sync.ready(t);
    }
    sync.wait();
    for (std::size_t t = 0; t < tensors.size(); ++t)
      for (std::size_t i = 0; i < tensors[t].size(); ++i) {
        float sum = 0;
        for (int r = 0; r < ctx.size(); ++r) sum += value(r, step, t, i);
        ASSERT_EQ(tensors[t][i], sum) << "tensor " << t << " index " << i << " step " << step;
      }
  }
}

const GradientSyncOptions kSum{.op = ReduceOp::kSum, .bucket_bytes = 60000};

class ArenaRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(OneToEight, ArenaRanks,
                         ::testing::ValuesIn(tested_rank_counts({1, 2, 3, 4, 7, 8})));

TEST_P(ArenaRanks, ReducesGradientsInPlace) {
  run_ranks(GetParam(), [](Context& ctx) {
    const Arena arena = ctx.allocate(1 << 20);
    ASSERT_GE(arena.bytes().size(), std::size_t{1} << 20);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.bytes().data()) % 4096, 0u);
    for (const std::byte byte : arena.bytes()) ASSERT_EQ(byte, std::byte{0});
    Tensors tensors = make_tensors(arena.resource());
    GradientSync sync(ctx, named(tensors), kSum);
    ASSERT_GT(sync.bucket_count(), 1u);
    for (std::size_t b = 0; b < sync.bucket_count(); ++b) EXPECT_TRUE(sync.is_in_place(b)) << b;
    expect_sums(ctx, sync, tensors);
  });
}

TEST_P(ArenaRanks, SupportsDifferentOffsetsAndSeveralArenas) {
  run_ranks(GetParam(), [](Context& ctx) {
    const Arena first = ctx.allocate(1 << 20);
    const Arena second = ctx.allocate(1 << 20);
    const Arena& mine = ctx.rank() % 2 == 0 ? first : second;
    (void)mine.resource()->allocate(static_cast<std::size_t>(ctx.rank()) * 1000 + 1);
    Tensors tensors = make_tensors(mine.resource());
    GradientSync sync(ctx, named(tensors), kSum);
    for (std::size_t b = 0; b < sync.bucket_count(); ++b) EXPECT_TRUE(sync.is_in_place(b)) << b;
    expect_sums(ctx, sync, tensors);
  });
}

TEST(Arena, BucketIsInPlaceOnlyIfAllGradientsAreOnAllRanks) {
  run_ranks(3, [](Context& ctx) {
    const Arena arena = ctx.allocate(1 << 20);
    Tensors tensors = make_tensors(arena.resource());
    // The first tensor has a bucket of its own.
    std::vector<float> ordinary(kCounts[0]);
    std::vector<NamedTensor> gradients = named(tensors);
    if (ctx.rank() == 1) gradients[0].tensor = TensorView(ordinary);
    GradientSync sync(ctx, gradients, kSum);
    for (std::size_t b = 0; b < sync.bucket_count(); ++b)
      EXPECT_EQ(sync.is_in_place(b), sync.bucket(b) != std::vector<std::size_t>{0}) << b;
  });
}

class ArenaNodes : public ::testing::TestWithParam<std::pair<int, int>> {};
INSTANTIATE_TEST_SUITE_P(RanksByNode, ArenaNodes,
                         ::testing::Values(std::pair(4, 2), std::pair(6, 2), std::pair(6, 3),
                                           std::pair(3, 2), std::pair(4, 3), std::pair(7, 3),
                                           std::pair(8, 4)));

TEST_P(ArenaNodes, ReducesGradientsInPlace) {
  const auto [ranks, per_node] = GetParam();
  for (const bool is_wire_narrow : {false, true})
    run_ranks(ranks,
              [&](Context& ctx) {
                ASSERT_GT(ctx.node_count(), 1);
                const Arena arena = ctx.allocate(1 << 20);
                // The offset differs between ranks.
                (void)arena.resource()->allocate(static_cast<std::size_t>(ctx.rank()) * 1000 + 1);
                Tensors tensors = make_tensors(arena.resource());
                GradientSyncOptions options = kSum;
                // Its sums are exact in float16.
                if (is_wire_narrow) options.wire = DataType::kFloat16;
                GradientSync sync(ctx, named(tensors), options);
                for (std::size_t b = 0; b < sync.bucket_count(); ++b)
                  EXPECT_TRUE(sync.is_in_place(b)) << b;
                expect_sums(ctx, sync, tensors);
                if (is_wire_narrow && ctx.rank() == 0) {
                  EXPECT_GT(sync.wire_report().bytes_saved, 0u);
                  EXPECT_EQ(sync.wire_report().relative_error(), 0);
                }
              },
              {.environment = {"HORO_RANKS_PER_NODE=" + std::to_string(per_node),
                               "HORO_ALLREDUCE=ring"}});
}

TEST(ArenaNodes, OrdinaryMemoryOnOneRankDisablesInPlaceOnAllNodes) {
  run_ranks(4,
            [](Context& ctx) {
              const Arena arena = ctx.allocate(1 << 20);
              Tensors tensors = make_tensors(arena.resource());
              Tensors ordinary = make_tensors(std::pmr::get_default_resource());
              std::vector<NamedTensor> gradients = named(tensors);
              if (ctx.rank() == 3) gradients[0].tensor = TensorView(ordinary[0]);
              GradientSync sync(ctx, gradients, kSum);
              for (std::size_t b = 0; b < sync.bucket_count(); ++b)
                EXPECT_EQ(sync.is_in_place(b), sync.bucket(b) != std::vector<std::size_t>{0}) << b;
            },
            {.environment = {"HORO_RANKS_PER_NODE=2"}});
}

TEST(ArenaNodes, RingIsInPlaceWithOneRankPerNode) {
  run_ranks(3,
            [](Context& ctx) {
              const Arena arena = ctx.allocate(1 << 20);
              Tensors tensors = make_tensors(arena.resource());
              GradientSync sync(ctx, named(tensors), kSum);
              EXPECT_FALSE(sync.is_in_place(0));
              expect_sums(ctx, sync, tensors);
            },
            {.environment = {"HORO_RANKS_PER_NODE=1"}});
}

TEST(Arena, StaysMappedWhileGradientSyncUsesIt) {
  run_ranks(2, [](Context& ctx) {
    std::optional<Arena> arena = ctx.allocate(1 << 16);
    const std::span<float> x(reinterpret_cast<float*>(arena->bytes().data()), 10001);
    const std::vector<NamedTensor> gradients = {{"x", TensorView(x)}};
    GradientSync sync(ctx, gradients, kSum);
    arena.reset();
    std::ranges::fill(x, static_cast<float>(ctx.rank() + 1));
    sync.exchange();
    EXPECT_TRUE(sync.is_in_place(0));
    for (const float y : x) ASSERT_EQ(y, 3.0f);
  });
}

TEST(Arena, FreeOnOneRankDisablesInPlaceOnAllRanks) {
  run_ranks(2, [](Context& ctx) {
    std::optional<Arena> first = ctx.allocate(1 << 16);
    const Arena second = ctx.allocate(1 << 16);
    if (ctx.rank() == 0) first.reset();
    const Arena& mine = ctx.rank() == 0 ? second : *first;
    const std::span<float> x(reinterpret_cast<float*>(mine.bytes().data()), 10001);
    std::ranges::fill(x, static_cast<float>(ctx.rank() + 1));
    const std::vector<NamedTensor> gradients = {{"x", TensorView(x)}};
    GradientSync sync(ctx, gradients, kSum);
    EXPECT_FALSE(sync.is_in_place(0));
    sync.exchange();
    for (const float y : x) ASSERT_EQ(y, 3.0f);
  });
}

TEST(Arena, EveryRankGetsLargestRequestedSize) {
  run_ranks(3, [](Context& ctx) {
    const Arena arena = ctx.allocate(static_cast<std::size_t>(ctx.rank() + 1) * 100000);
    EXPECT_GE(arena.bytes().size(), 300000u);
  });
}

TEST(Arena, DoesNotChangeNamesOfPlans) {
  run_ranks(1, [](Context& ctx) {
    const Arena arena = ctx.allocate(8192);
    std::vector<float> x(10);
    const std::vector<NamedTensor> one = {{"x", TensorView(x)}};
    const GradientSync unnamed(ctx, one);
    EXPECT_EQ(ctx.runtime()->automatic_name("gradients"), "gradients.1");
  });
}

TEST(Arena, FailedAllocationThrowsOnAllRanksAndJobContinues) {
  run_ranks(2, [](Context& ctx) {
    EXPECT_THROW(ctx.allocate(std::size_t{1} << 46), SharedMemoryError);
    std::vector<float> x = {static_cast<float>(ctx.rank() + 1)};
    ctx.allreduce(TensorView(x), {.op = ReduceOp::kSum});
    EXPECT_EQ(x[0], 3.0f);
  });
}

TEST(Arena, ReportsFullArena) {
  run_ranks(1, [](Context& ctx) {
    Arena arena = ctx.allocate(8192);
    std::pmr::memory_resource* resource = arena.resource();
    const Arena moved = std::move(arena);
    auto* first = static_cast<std::byte*>(resource->allocate(100, 8));
    auto* second = static_cast<std::byte*>(resource->allocate(100, 8));
    EXPECT_EQ(first, moved.bytes().data());
    EXPECT_EQ(second, first + 128);
    try {
      (void)resource->allocate(8000, 64);
      FAIL();
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("the arena of 8 KiB is full"));
    }
    (void)resource->allocate(7900, 64);
    EXPECT_THROW(ctx.allocate(0), InvalidArgument);
    EXPECT_THROW(ctx.allocate(std::size_t{1} << 62), InvalidArgument);
    EXPECT_THROW(ctx.allocate(~std::size_t{0}), InvalidArgument);
  });
}

}  // namespace
}  // namespace horo
