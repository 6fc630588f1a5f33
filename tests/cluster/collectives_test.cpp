// Collectives between emulated hosts. run_in_lab.py starts this program on each host. LAB_HOSTS is
// the number of hosts, LAB_RANKS the number of ranks per host. Ranks are numbered host by host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory_resource>
#include <optional>
#include <string>
#include <vector>

#include "horo/horo.h"

namespace horo {
namespace {

// Counts on both sides of the largest single-step exchange, of the ring's chunks and of the
// segments, and odd counts.
const std::vector<std::size_t> kCounts = {0, 1, 2, 3, 5, 1023, 8191, 65537, 1000003};

// Small integers that differ by rank and index, so that all their sums are exact in float32.
float value(int rank, std::size_t i) {
  return static_cast<float>(static_cast<std::size_t>(rank + 1) * (i % 97 + 1) % 211);
}

std::vector<float> values(int rank, std::size_t count) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = value(rank, i);
  return x;
}

std::vector<float> sums(int ranks, std::size_t count) {
  std::vector<float> x(count, 0.0f);
  for (int rank = 0; rank < ranks; ++rank)
    for (std::size_t i = 0; i < count; ++i) x[i] += value(rank, i);
  return x;
}

void expect_equal(const std::vector<float>& x, const std::vector<float>& expected) {
  ASSERT_EQ(x.size(), expected.size());
  const auto [at, reference] = std::mismatch(x.begin(), x.end(), expected.begin());
  if (at != x.end())
    ADD_FAILURE() << "index " << at - x.begin() << " of " << x.size() << ": " << *at << ", not "
                  << *reference;
}

int lab_number(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

TEST(Cluster, HostsAreNodes) {
  Context ctx = init();
  const int hosts = lab_number("LAB_HOSTS");
  const int ranks = lab_number("LAB_RANKS");
  EXPECT_EQ(ctx.size(), hosts * ranks);
  EXPECT_EQ(ctx.node_count(), hosts);
  EXPECT_EQ(ctx.local_size(), ranks);
  EXPECT_EQ(ctx.node(), ctx.rank() / ranks);
  EXPECT_EQ(ctx.local_rank(), ctx.rank() % ranks);
}

class ClusterCollectives : public testing::TestWithParam<const char*> {
 protected:
  ClusterCollectives() { setenv("HORO_ALGORITHM", GetParam(), 1); }
  ~ClusterCollectives() override { unsetenv("HORO_ALGORITHM"); }
};

TEST_P(ClusterCollectives, Allreduce) {
  Context ctx = init();
  for (const std::size_t count : kCounts) {
    std::vector<float> x = values(ctx.rank(), count);
    ctx.allreduce(TensorView(x), {.name = "x", .op = ReduceOp::kSum});
    expect_equal(x, sums(ctx.size(), count));
  }
}

TEST_P(ClusterCollectives, BroadcastFromEachRank) {
  Context ctx = init();
  for (const std::size_t count : kCounts)
    for (int root = 0; root < ctx.size(); ++root) {
      std::vector<float> x = values(ctx.rank(), count);
      ctx.broadcast(TensorView(x), {.name = "x", .root = root});
      expect_equal(x, values(root, count));
    }
}

TEST_P(ClusterCollectives, AllgatherOfDifferentSizes) {
  Context ctx = init();
  for (const std::size_t count : kCounts) {
    std::vector<float> expected;
    for (int rank = 0; rank < ctx.size(); ++rank) {
      const std::vector<float> part = values(rank, count / static_cast<std::size_t>(rank + 1));
      expected.insert(expected.end(), part.begin(), part.end());
    }
    std::vector<float> mine = values(ctx.rank(), count / static_cast<std::size_t>(ctx.rank() + 1));
    std::vector<float> all(expected.size());
    ctx.allgather(TensorView(mine), TensorView(all), {.name = "x"});
    expect_equal(all, expected);
  }
}

TEST_P(ClusterCollectives, ReduceScatter) {
  Context ctx = init();
  const auto ranks = static_cast<std::size_t>(ctx.size());
  const auto rank = static_cast<std::size_t>(ctx.rank());
  for (const std::size_t count : kCounts) {
    std::vector<float> x = values(ctx.rank(), count);
    std::vector<float> shard(ctx.shard_rows(count));
    ctx.reduce_scatter(TensorView(x), TensorView(shard), {.name = "x", .op = ReduceOp::kSum});
    const std::size_t begin = rank * (count / ranks) + std::min(rank, count % ranks);
    const std::vector<float> all = sums(ctx.size(), count);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
    expect_equal(shard, {first, first + static_cast<std::ptrdiff_t>(shard.size())});
  }
}

TEST_P(ClusterCollectives, GradientsOverSeveralSteps) {
  Context ctx = init();
  const std::size_t counts[] = {1, 70001, 3, 300007, 4099};
  std::vector<std::vector<float>> tensors;
  for (const std::size_t count : counts) tensors.emplace_back(count);
  std::vector<NamedTensor> gradients;
  for (auto& tensor : tensors)
    gradients.push_back({"g" + std::to_string(gradients.size()), TensorView(tensor)});
  GradientSync sync(ctx, gradients, {.op = ReduceOp::kSum, .bucket_bytes = 1 << 18});
  for (int step = 0; step < 5; ++step) {
    // Each step uses the values of other ranks, so that a stale result of an earlier step is
    // detected.
    for (std::size_t i = tensors.size(); i-- > 0;) {
      for (std::size_t k = 0; k < counts[i]; ++k) tensors[i][k] = value(ctx.rank() + step, k);
      sync.ready(i);
    }
    sync.wait();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      std::vector<float> expected(counts[i], 0.0f);
      for (int rank = 0; rank < ctx.size(); ++rank)
        for (std::size_t k = 0; k < counts[i]; ++k) expected[k] += value(rank + step, k);
      expect_equal(tensors[i], expected);
    }
  }
}

TEST_P(ClusterCollectives, GradientsInAnArena) {
  Context ctx = init();
  const std::size_t counts[] = {1, 700001, 3, 300007, 0, 4099};
  for (const std::optional<DataType> wire :
       {std::optional<DataType>(), std::optional(DataType::kFloat16)}) {
    const Arena arena = ctx.allocate(5 << 20);
    std::vector<std::pmr::vector<float>> tensors;
    for (const std::size_t count : counts) tensors.emplace_back(count, arena.resource());
    std::vector<NamedTensor> gradients;
    for (auto& tensor : tensors)
      gradients.push_back({"g" + std::to_string(gradients.size()), TensorView(tensor)});
    GradientSync sync(
        ctx, gradients,
        {.op = ReduceOp::kSum, .bucket_bytes = 1 << 20, .wire = wire});  // exact in float16
    const bool is_hierarchical = GetParam() == std::string("hierarchical") ||
                                 (GetParam() == std::string("auto") && ctx.local_size() > 1);
    for (std::size_t b = 0; b < sync.bucket_count(); ++b)
      EXPECT_EQ(sync.is_in_place(b), is_hierarchical) << b;
    for (int step = 0; step < 4; ++step) {
      for (std::size_t i = tensors.size(); i-- > 0;) {
        for (std::size_t k = 0; k < counts[i]; ++k) tensors[i][k] = value(ctx.rank() + step, k);
        sync.ready(i);
      }
      sync.wait();
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        std::vector<float> expected(counts[i], 0.0f);
        for (int rank = 0; rank < ctx.size(); ++rank)
          for (std::size_t k = 0; k < counts[i]; ++k) expected[k] += value(rank + step, k);
        expect_equal({tensors[i].begin(), tensors[i].end()}, expected);
      }
    }
  }
}

// The sum of these values rounds differently for each order of addition.
std::vector<float> rounding_values(int rank, std::size_t count) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i)
    x[i] = std::sin(static_cast<float>(i * 31 + static_cast<std::size_t>(rank) * 7 + 1));
  return x;
}

TEST(ClusterAllreduce, TreesGiveSameBits) {
  const std::size_t counts[] = {1,    2,    17,   255,
                                1023, 4099, 10007};  // below the sizes that use the ring
  std::vector<std::vector<float>> reference;
  for (const char* allreduce : {"exchange", "doubling", "halving", "auto"}) {
    setenv("HORO_ALLREDUCE", allreduce, 1);
    {
      Context ctx = init();
      for (std::size_t c = 0; c < std::size(counts); ++c) {
        std::vector<float> x = rounding_values(ctx.rank(), counts[c]);
        ctx.allreduce(TensorView(x), {.name = "x"});
        if (reference.size() == c) reference.push_back(x);
        EXPECT_EQ(std::memcmp(x.data(), reference[c].data(), counts[c] * sizeof(float)), 0)
            << allreduce << ", " << counts[c] << " elements";
      }
    }
    unsetenv("HORO_ALLREDUCE");
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, ClusterCollectives,
                         testing::Values("auto", "ring", "hierarchical"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace horo
