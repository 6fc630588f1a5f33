#include <gmock/gmock.h>

#include <atomic>

#include "tests/flight_recorder/temporary_directory.h"
#include "tests/plan/tuning/tuned_job.h"

namespace horo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;
using ::testing::StartsWith;

class AutotuneFile : public ::testing::TestWithParam<JobShape> {
 protected:
  // Runs a job with a model of that many tensors. Returns the number of steps of its search, the
  // same on every rank.
  int steps_of_search(std::size_t tensors = 11, const GradientSyncOptions& options = {}) {
    std::atomic<int> total = 0;
    run_ranks(
        GetParam().ranks,
        [&](Context& ctx) {
          WholeModel model(tensors);
          GradientSyncOptions summed = options;
          summed.op = ReduceOp::kSum;
          GradientSync sync(ctx, model.gradients(), summed);
          buckets_ = sync.bucket_count();
          total += tune_to_end(ctx, sync, model);
          expect_exact_step(ctx, sync, model, 99);
        },
        tuned(GetParam(), path_));
    EXPECT_EQ(total % GetParam().ranks, 0);
    return total / GetParam().ranks;
  }
  void write(const std::string& text) const { std::ofstream(path_) << text; }

  const observe::TemporaryDirectory directory_;
  std::string path_ = directory_.file("tuned");
  std::atomic<std::size_t> buckets_ = 0;  // at the beginning
};
INSTANTIATE_TEST_SUITE_P(Shapes, AutotuneFile,
                         ::testing::Values(JobShape{2, 2}, JobShape{3, 1}, JobShape{4, 2}),
                         name_of_shape);

TEST_P(AutotuneFile, IsWrittenOnceAndReplacesLaterSearch) {
  EXPECT_GE(steps_of_search(), 8);
  const auto lines = lines_of(path_);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], AllOf(StartsWith("model="), HasSubstr(" bucket_bytes=")));
  EXPECT_EQ(steps_of_search(), 0);
  EXPECT_EQ(lines_of(path_), lines);
}

TEST_P(AutotuneFile, AppliesFromFirstStep) {
  EXPECT_GE(steps_of_search(), 8);
  const std::string line = lines_of(path_).at(0);
  const std::size_t untuned = buckets_;
  write(with_value(line, "bucket_bytes", "12000") + "\n");
  EXPECT_EQ(steps_of_search(), 0);
  EXPECT_LT(buckets_, untuned);
  write(with_value(with_value(line, "bucket_bytes", "187"), "hierarchical", "0") + "\n");
  EXPECT_EQ(steps_of_search(), 0);
  EXPECT_GT(buckets_, untuned);
}

TEST_P(AutotuneFile, RunsWithSameFileHaveSameBits) {
  const auto run = [&] {
    std::vector<std::vector<float>> results;
    run_ranks(
        GetParam().ranks,
        [&](Context& ctx) {
          WholeModel model;
          GradientSync sync(ctx, model.gradients());
          EXPECT_EQ(sync.is_tuning(), lines_of(path_).empty());
          for (int step = 0; step < kManySteps; ++step) {
            for (auto& values : model.values)
              for (std::size_t i = 0; i < values.size(); ++i)
                values[i] = 1.0f / static_cast<float>(3 * ctx.rank() + step + 7 + i % 97);
            sync.exchange();
            if (ctx.rank() == 0)
              for (const auto& values : model.values)
                results.emplace_back(values.begin(), values.end());
          }
          EXPECT_FALSE(sync.is_tuning());
        },
        tuned(GetParam(), path_));
    return results;
  };
  run();
  const auto first = run();
  EXPECT_TRUE(run() == first);
}

TEST_P(AutotuneFile, OtherModelOrOptionsHaveOwnLine) {
  EXPECT_GE(steps_of_search(11), 8);
  EXPECT_GE(steps_of_search(9), 8);
  EXPECT_GE(steps_of_search(11, {.clip_norm = 1e30}), 8);
  EXPECT_EQ(lines_of(path_).size(), 3u);
  EXPECT_EQ(steps_of_search(9), 0);
  EXPECT_EQ(steps_of_search(11), 0);
  EXPECT_EQ(lines_of(path_).size(), 3u);
}

TEST_P(AutotuneFile, DamagedFileFailsAllRanks) {
  write("# head\n\nmodel=1 nodes=2 ranks=3 bucket_bytes=many\n");
  std::atomic<int> refused = 0;
  run_ranks(
      GetParam().ranks,
      [&](Context& ctx) {
        WholeModel model;
        EXPECT_THAT(error_text<InvalidArgument>([&] { GradientSync(ctx, model.gradients()); }),
                    AllOf(HasSubstr("HORO_AUTOTUNE: " + path_ + ":3: 'many'"),
                          HasSubstr("remove the line to repeat the search")));
        // The context and plans without tuning remain usable.
        GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum, .autotune = false});
        expect_exact_step(ctx, sync, model, 1);
        ++refused;
      },
      tuned(GetParam(), path_));
  EXPECT_EQ(refused, GetParam().ranks);
}

TEST_P(AutotuneFile, UnwritableFileIsOneWarning) {
  path_ = directory_.file("missing/tuned");
  ::testing::internal::CaptureStderr();
  testing::RunOptions options = tuned(GetParam(), path_);
  options.environment.push_back("HORO_LOG_LEVEL=warning");
  run_ranks(
      GetParam().ranks,
      [&](Context& ctx) {
        WholeModel model;
        GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum});
        EXPECT_GE(tune_to_end(ctx, sync, model), 8);
        expect_exact_step(ctx, sync, model, 7);
      },
      options);
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::string text = "HORO_AUTOTUNE: " + path_ + " cannot be written: ";
  EXPECT_THAT(log, HasSubstr(text));
  EXPECT_EQ(log.find(text), log.rfind(text));
}

}  // namespace
}  // namespace horo
