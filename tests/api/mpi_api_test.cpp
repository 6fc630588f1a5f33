#include <gtest/gtest.h>

#include "horo/horo.h"
#include "horo/mpi.h"
#include "tests/api/compressed_set.h"

namespace horo {
namespace {

TEST(MpiApi, JoinsAnMpiThatTheProgramInitialised) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  {
    Context ctx = init();
    EXPECT_EQ(ctx.rank(), rank);
    EXPECT_EQ(ctx.size(), size);
    std::vector<float> x(100003);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(rank) + static_cast<float>(i % 13);
    ctx.allreduce(TensorView(x), {.name = "x", .op = ReduceOp::kSum});
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(x[i], static_cast<float>(size * (size - 1) / 2) +
                          static_cast<float>(size) * static_cast<float>(i % 13));
  }
  int is_finalized = 1;
  MPI_Finalized(&is_finalized);
  EXPECT_EQ(is_finalized, 0);
}

TEST(MpiApi, TwentyInitsAndTheProgramsOwnTraffic) {
  for (int round = 0; round < 20; ++round) {
    Context ctx = init(MPI_COMM_WORLD);
    std::vector<double> x(round * 1000 + 1, ctx.rank() + 1.0);
    const Handle handle = ctx.allreduce_async(TensorView(x), {.name = "x", .op = ReduceOp::kMax});
    int mine = ctx.rank();
    int sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(sum, ctx.size() * (ctx.size() - 1) / 2);
    handle.wait();
    EXPECT_EQ(x.back(), ctx.size());
  }
}

TEST(MpiApi, ASubsetOfTheRanks) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  {
    Context ctx = init(half);
    std::vector<std::int32_t> x(5, 1);
    ctx.allreduce(TensorView(x), {.name = "x", .op = ReduceOp::kSum});
    EXPECT_EQ(x[4], ctx.size());
  }
  MPI_Comm_free(&half);
}

TEST(MpiApi, RanksWithOtherSettingsAreRefusedEverywhere) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size == 1) return;
  const std::pair<const char*, const char*> settings[] = {
      {"HORO_BIND", "none"}, {"HORO_RANKS_PER_NODE", "1"}, {"HORO_ALGORITHM", "ring"}};
  for (const auto& [name, value] : settings) {
    if (rank == 1) setenv(name, value, 1);
    try {
      Context ctx = init();
      ADD_FAILURE() << name;
    } catch (const MismatchError& error) {
      EXPECT_NE(std::string(error.what()).find(std::string(name) + "=" + value + " on rank 1"),
                std::string::npos)
          << error.what();
    }
    unsetenv(name);
  }
}

TEST(MpiApi, GradientsInAnArena) {
  Context ctx = init();
  const Arena arena = ctx.allocate(1 << 20);
  std::pmr::vector<float> a(123457, arena.resource());
  std::pmr::vector<float> b(77, arena.resource());
  const std::vector<NamedTensor> gradients = {{"a", TensorView(a)}, {"b", TensorView(b)}};
  GradientSync sync(ctx, gradients, {.op = ReduceOp::kSum});
  EXPECT_TRUE(sync.is_in_place(0));
  for (int step = 0; step < 50; ++step) {
    for (std::size_t i = 0; i < a.size(); ++i)
      a[i] = static_cast<float>(ctx.rank() + step) + static_cast<float>(i % 7);
    b.assign(b.size(), static_cast<float>(step));
    sync.exchange();
    const auto n = static_cast<float>(ctx.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_EQ(a[i], n * (static_cast<float>(step) + static_cast<float>(i % 7)) + n * (n - 1) / 2);
    ASSERT_EQ(b[76], n * static_cast<float>(step));
  }
}

TEST(MpiApi, TooLargeAnArenaIsRefusedOnEveryRankAndTheJobGoesOn) {
  Context ctx = init();
  try {
    (void)ctx.allocate(ctx.rank() == 0 ? std::size_t{1} << 45 : 1);
    ADD_FAILURE() << "32 TiB were granted";
  } catch (const SharedMemoryError& error) {
    EXPECT_NE(std::string(error.what()).find("/dev/shm"), std::string::npos) << error.what();
  }
  std::vector<std::int32_t> x(5, 1);
  ctx.allreduce(TensorView(x), {.name = "x", .op = ReduceOp::kSum});
  EXPECT_EQ(x[4], ctx.size());
}

TEST(MpiApi, AlltoallOnEveryAlgorithm) {
  // In every round other splits; some pairs exchange nothing, some more than a segment.
  const auto rows_between = [](int from, int to, int round) {
    return static_cast<std::size_t>((from * 5 + to * 3 + round) % 4) * 25001;
  };
  const auto value = [](int from, int to, std::size_t i, int round) {
    return static_cast<std::int32_t>(((from * 8 + to) * 8 + round) * 100000) +
           static_cast<std::int32_t>(i);
  };
  for (const char* algorithm : {"auto", "shared_memory", "ring", "hierarchical", "mpi"}) {
    setenv("HORO_ALGORITHM", algorithm, 1);
    Context ctx = init();
    for (int round = 0; round < 4; ++round) {
      std::vector<std::size_t> splits;
      std::vector<std::int32_t> input, expected;
      for (int peer = 0; peer < ctx.size(); ++peer) {
        splits.push_back(rows_between(ctx.rank(), peer, round));
        for (std::size_t i = 0; i < 2 * splits.back(); ++i)
          input.push_back(value(ctx.rank(), peer, i, round));
        for (std::size_t i = 0; i < 2 * rows_between(peer, ctx.rank(), round); ++i)
          expected.push_back(value(peer, ctx.rank(), i, round));
      }
      std::vector<std::int32_t> output(expected.size());
      const auto received = ctx.alltoall(TensorView(input.data(), {input.size() / 2, 2}),
                                         TensorView(output.data(), {output.size() / 2, 2}),
                                         {.name = "tokens", .splits = splits});
      ASSERT_EQ(output, expected) << algorithm << " round " << round;
      for (int peer = 0; peer < ctx.size(); ++peer)
        EXPECT_EQ(received[static_cast<std::size_t>(peer)], rows_between(peer, ctx.rank(), round));
    }
  }
  unsetenv("HORO_ALGORITHM");
}

TEST(MpiApi, CompressedGradientsOnEveryAlgorithm) {
  for (const char* algorithm :
       {"shared_memory", "ring", "hierarchical", "parameter_server", "mpi"}) {
    setenv("HORO_ALGORITHM", algorithm, 1);
    Context ctx = init(MPI_COMM_WORLD);
    for (const auto kind : {Compression::Kind::kPowerSgd, Compression::Kind::kTopK}) {
      CompressedSet set(ctx.rank());
      GradientSync sync(ctx, set.gradients(), {.compression = {.kind = kind, .rank = 2}});
      for (int step = 0; step < 3; ++step) {
        set.compute(step);
        sync.exchange();
      }
      const std::vector<float> own = set.all_values();
      std::vector<float> of_rank_0 = own;
      ctx.broadcast(TensorView(of_rank_0), {.name = "values", .root = 0});
      EXPECT_EQ(own, of_rank_0) << algorithm;
      const CompressionFigures figures = sync.compression_report().total;
      EXPECT_GT(figures.relative_error(), 0.01);
      EXPECT_LT(figures.relative_error(), 1.0);
      EXPECT_EQ(figures.compression_rate() > 2, ctx.size() > 1) << algorithm;
    }
  }
  unsetenv("HORO_ALGORITHM");
}

TEST(MpiApi, GradientsOverManySteps) {
  Context ctx = init();
  std::vector<float> a(12345);
  std::vector<float> b(77);
  const std::vector<NamedTensor> gradients = {{"a", TensorView(a)}, {"b", TensorView(b)}};
  GradientSync sync(ctx, gradients, {.op = ReduceOp::kSum, .bucket_bytes = 1024});
  const std::uint64_t messages = ctx.counters().control_messages_sent;
  for (int step = 0; step < 100; ++step) {
    for (std::size_t i = 0; i < a.size(); ++i)
      a[i] = static_cast<float>(ctx.rank() + step) + static_cast<float>(i % 7);
    b.assign(b.size(), static_cast<float>(step));
    sync.ready(1);
    sync.ready(0);
    sync.wait();
    const auto n = static_cast<float>(ctx.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_EQ(a[i], n * (static_cast<float>(step) + static_cast<float>(i % 7)) + n * (n - 1) / 2);
    ASSERT_EQ(b[76], n * static_cast<float>(step));
  }
  EXPECT_EQ(ctx.counters().control_messages_sent, messages);
}

}  // namespace
}  // namespace horo
