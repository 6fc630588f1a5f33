#include <gtest/gtest.h>

#include <limits>

#include "horo/horo.h"
#include "horo/mpi.h"
#include "tests/api/compression/compressed_set.h"
#include "tests/api/gradients/gradient_model.h"

namespace horo {
namespace {

TEST(MpiApi, UsesMpiInitialisedByProgram) {
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

TEST(MpiApi, RepeatedInitKeepsProgramTraffic) {
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

TEST(MpiApi, RunsOnSubsetOfRanks) {
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

TEST(MpiApi, DifferentSettingsFailAllRanks) {
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

TEST(MpiApi, ReducesGradientsInArena) {
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

TEST(MpiApi, TooLargeArenaFailsAllRanksAndJobContinues) {
  Context ctx = init();
  try {
    (void)ctx.allocate(ctx.rank() == 0 ? std::size_t{1} << 45 : 1);
    ADD_FAILURE() << "32 TiB were granted";
  } catch (const SharedMemoryError& error) {
    EXPECT_NE(std::string(error.what()).find("cannot allocate"), std::string::npos) << error.what();
  }
  std::vector<std::int32_t> x(5, 1);
  ctx.allreduce(TensorView(x), {.name = "x", .op = ReduceOp::kSum});
  EXPECT_EQ(x[4], ctx.size());
}

TEST(MpiApi, AlltoallOnEveryAlgorithm) {
  // The splits differ in every round. Some pairs exchange nothing, some more than a segment.
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

TEST(MpiApi, WeightsAndClipsAccumulatedSteps) {
  Context ctx = init();
  WholeModel model(6);
  GradientSync sync(ctx, model.gradients(),
                    {.bucket_bytes = 3000,
                     .first_bucket_bytes = 1000,
                     .backward_passes_per_step = 2,
                     .find_unused = true,
                     .weighted = true,
                     .clip_norm = 1e-3,
                     .check_finite = true});
  for (int step = 0; step < 3; ++step) {
    model.compute(ctx.rank(), step);
    sync.set_weight(ctx.rank() + 1);
    sync.ready(5);
    EXPECT_FALSE(sync.wait().was_exchanged);
    for (const std::size_t t : {4u, 3u, 1u, 0u}) sync.ready(t);
    const StepReport& report = sync.wait();
    EXPECT_EQ(report.unused_everywhere, std::vector<std::size_t>{2});
    EXPECT_TRUE(report.was_clipped);
    EXPECT_EQ(report.total_weight, ctx.size() * (ctx.size() + 1) / 2);
  }
  model.compute(ctx.rank(), 3);
  if (ctx.rank() == ctx.size() - 1) model.values[1][2] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(sync.exchange().was_exchanged);
  EXPECT_EQ(sync.exchange().non_finite->describe(),
            "gradient 'layer1' of rank " + std::to_string(ctx.size() - 1) + " is inf at index 2");
  EXPECT_EQ(sync.join(), ctx.size() - 1);
}

TEST(MpiApi, RanksMayStopAtDifferentSteps) {
  Context ctx = init();
  WholeModel model(4);
  GradientSync sync(ctx, model.gradients(), {.bucket_bytes = 2000, .weighted = true});
  for (int step = 0; step < 2 + ctx.rank(); ++step) {
    model.compute(ctx.rank(), step);
    model.mark_all(sync);
    sync.wait();
    float sum = 0;
    int live = 0;
    for (int r = 0; r < ctx.size(); ++r)
      if (step < 2 + r) {
        sum += WholeModel::value(r, step, 3, 5);
        ++live;
      }
    EXPECT_NEAR(model.values[3][5], sum / static_cast<float>(live), 1e-3f);
  }
  EXPECT_EQ(sync.join(), ctx.size() - 1);
}

TEST(MpiApi, UpdateDuringExchangeFailsAllRanks) {
  Context ctx = init();
  if (ctx.size() == 1) return;
  WholeModel model(6);
  GradientSync sync(ctx, model.gradients(), {.bucket_bytes = 2000});
  sync.exchange();
  EXPECT_THROW(
      {
        if (ctx.rank() == 1)
          sync.update(model.gradients());
        else
          sync.exchange();
      },
      MismatchError);
  model.values.pop_back();
  sync.update(model.gradients());
  model.compute(ctx.rank(), 1);
  sync.exchange();
  float sum = 0;
  for (int r = 0; r < ctx.size(); ++r) sum += WholeModel::value(r, 1, 4, 7);
  EXPECT_EQ(model.values[4][7], sum / static_cast<float>(ctx.size()));
}

}  // namespace
}  // namespace horo
