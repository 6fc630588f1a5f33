#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tests/plan/tuning/tuned_job.h"

namespace horo {
namespace {

// Sets the environment of the jobs of a test.
class AutotuneMpi : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    for (const auto& [name, value] : {std::pair{"HORO_RANKS_PER_NODE", std::to_string(GetParam())},
                                      std::pair{"HORO_BUCKET_BYTES", std::string("3000")},
                                      std::pair{"HORO_RING_SEGMENT_BYTES", std::string("4096")}})
      setenv(name, value.c_str(), 1);
  }
  void TearDown() override {
    for (const char* name :
         {"HORO_RANKS_PER_NODE", "HORO_BUCKET_BYTES", "HORO_RING_SEGMENT_BYTES", "HORO_AUTOTUNE"})
      unsetenv(name);
  }
};
// Ranks per node; 0: the ranks of the machine are one node.
INSTANTIATE_TEST_SUITE_P(RanksPerNode, AutotuneMpi, ::testing::Values(0, 1, 2));

TEST_P(AutotuneMpi, EveryStepIsExactAndSearchEnds) {
  setenv("HORO_AUTOTUNE", "on", 1);
  Context ctx = init();
  WholeModel model;
  GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum});
  EXPECT_TRUE(sync.is_tuning());
  int steps = 0;
  for (; sync.is_tuning(); ++steps) expect_exact_step(ctx, sync, model, steps);
  EXPECT_LE(steps, 60);
  expect_no_more_messages(ctx, sync, model);
}

TEST_P(AutotuneMpi, NamedOperationsMayInterleaveDifferently) {
  setenv("HORO_AUTOTUNE", "on", 1);
  Context ctx = init();
  for (const bool reorder : {false, true})
    cross_with_named_operations(ctx, {.op = ReduceOp::kSum, .reorder = reorder});
}

TEST_P(AutotuneMpi, FileReplacesSearchOfNextJob) {
  // The ranks share their parent, mpirun.
  const std::string path =
      (std::filesystem::temp_directory_path() /
       ("horo-tuned-" + std::to_string(getppid()) + "-" + std::to_string(GetParam())))
          .string();
  setenv("HORO_AUTOTUNE", path.c_str(), 1);
  for (int job = 0; job < 2; ++job) {
    Context ctx = init();
    WholeModel model;
    GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum});
    EXPECT_EQ(tune_to_end(ctx, sync, model) > 0, job == 0);
    expect_exact_step(ctx, sync, model, 5);
    ctx.barrier();
    if (ctx.rank() == 0) {
      EXPECT_EQ(lines_of(path).size(), 1u);
      if (job == 1) std::filesystem::remove(path);
    }
    ctx.barrier();
  }
}

TEST_P(AutotuneMpi, SupportsCompressionAndMpiCollectives) {
  setenv("HORO_AUTOTUNE", "on", 1);
  for (const char* algorithm : {"auto", "mpi"}) {
    setenv("HORO_ALGORITHM", algorithm, 1);
    Context ctx = init();
    WholeModel model;
    GradientSync plain(ctx, model.gradients(), {.op = ReduceOp::kSum});
    EXPECT_LE(tune_to_end(ctx, plain, model), 60);
    GradientSync sync(ctx, model.gradients(), {.compression = {.kind = Compression::Kind::kTopK}});
    for (int step = 0; step < kManySteps; ++step) {
      model.compute(ctx.rank(), step);
      sync.exchange();
      auto of_rank_0 = model.values[4];
      ctx.broadcast(TensorView(of_rank_0), {.name = "values", .root = 0});
      ASSERT_EQ(model.values[4], of_rank_0);
    }
    EXPECT_FALSE(sync.is_tuning());
  }
  unsetenv("HORO_ALGORITHM");
}

}  // namespace
}  // namespace horo
