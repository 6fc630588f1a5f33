#include <gmock/gmock.h>

#include <mutex>
#include <set>

#include "tests/plan/tuning/tuned_job.h"

namespace horo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;

class Autotune : public ::testing::TestWithParam<JobShape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, Autotune, ::testing::ValuesIn(kJobShapes), name_of_shape);

class AutotuneInMemory : public ::testing::TestWithParam<JobShape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, AutotuneInMemory, ::testing::ValuesIn(kStepShapes), name_of_shape);

bool has_several_nodes(const JobShape& shape) { return shape.ranks > shape.per_node; }

// Whether the job can use either of two algorithms.
bool may_choose(const JobShape& shape) { return has_several_nodes(shape) && shape.per_node > 1; }

// The values of `name` among the trials that the log lists.
std::set<std::string> tried(const std::string& log, const std::string& name) {
  std::set<std::string> values;
  for (std::size_t at = 0; (at = log.find(" " + name + "=", at)) != std::string::npos;) {
    at += name.size() + 2;
    values.insert(log.substr(at, log.find_first_of(" :\n", at) - at));
  }
  return values;
}

TEST_P(AutotuneInMemory, EveryTrialIsExact) {
  testing::RunOptions options = tuned(GetParam());
  options.environment.back() = "HORO_AUTOTUNE=on";
  options.environment.push_back("HORO_LOG_LEVEL=debug");
  options.max_delay = std::chrono::microseconds(has_several_nodes(GetParam()) ? 100 : 0);
  ::testing::internal::CaptureStderr();
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel model(GetParam().memory);
        GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum, .chunk_bytes = 8192});
        EXPECT_EQ(sync.is_tuning(), ctx.size() > 1);
        for (int step = 0; step < kManySteps; ++step) expect_exact_step(ctx, sync, model, step);
        EXPECT_FALSE(sync.is_tuning());
      },
      options);
  const std::string log = ::testing::internal::GetCapturedStderr();
  if (GetParam().ranks == 1) {
    EXPECT_THAT(log, HasSubstr("autotune of gradients 'gradients.0': nothing to tune: "));
    EXPECT_THAT(log, ::testing::Not(HasSubstr(" trial ")));
    return;
  }
  EXPECT_THAT(log, HasSubstr("autotune of gradients 'gradients.0': trial 1: "));
  EXPECT_THAT(log, HasSubstr(" ms untuned, "));
  EXPECT_GE(tried(log, "bucket_bytes").size(), 2u) << log;
  const bool is_on_device = GetParam().memory == MemoryKind::kDevice;
  EXPECT_EQ(tried(log, "chunk_bytes").size() >= 2, is_on_device) << log;
  EXPECT_EQ(tried(log, "ring_segment_bytes").size() >= 2,
            has_several_nodes(GetParam()) && !is_on_device)
      << log;
  EXPECT_EQ(tried(log, "hierarchical").size(), may_choose(GetParam()) && !is_on_device ? 2u : 0u)
      << log;
}

TEST_P(AutotuneInMemory, EndsWithinSixtySteps) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel model(GetParam().memory);
        GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum, .chunk_bytes = 8192});
        int steps = 0;
        for (; sync.is_tuning(); ++steps) {
          ASSERT_LT(steps, 60);
          const std::uint64_t before = ctx.counters().collectives;
          const std::size_t buckets = sync.bucket_count();
          expect_exact_step(ctx, sync, model, steps);
          // The exchange of the time of the previous step.
          EXPECT_EQ(ctx.counters().collectives - before - buckets, steps == 0 ? 0u : 1u);
        }
        EXPECT_EQ(steps > 0, ctx.size() > 1);
        expect_no_more_messages(ctx, sync, model);
      },
      tuned(GetParam()));
}

TEST_P(Autotune, AllRanksAgreeInEveryTrial) {
  std::mutex mutex;
  std::vector<std::vector<std::vector<float>>> results(kManySteps);
  const auto value = [](int rank, int step, std::size_t i) {
    return 1.0f / static_cast<float>((rank + 2) * 3 + step + static_cast<int>(i % 97));
  };
  run_ranks(
      GetParam().ranks,
      [&](Context& ctx) {
        WholeModel model;
        GradientSync sync(ctx, model.gradients());
        for (int step = 0; step < kManySteps; ++step) {
          for (auto& values : model.values)
            for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(ctx.rank(), step, i);
          sync.exchange();
          std::vector<float> all;
          for (const auto& values : model.values) {
            for (std::size_t i = 0; i < values.size(); ++i) {
              double sum = 0;
              for (int r = 0; r < ctx.size(); ++r) sum += value(r, step, i);
              ASSERT_NEAR(values[i], sum / ctx.size(), 1e-6);
            }
            all.insert(all.end(), values.begin(), values.end());
          }
          const std::scoped_lock lock(mutex);
          results[static_cast<std::size_t>(step)].push_back(std::move(all));
        }
      },
      tuned(GetParam()));
  for (const auto& of_step : results)
    for (const auto& of_rank : of_step) ASSERT_EQ(of_rank, of_step[0]);
}

TEST_P(Autotune, WorksInArenas) {
  const bool has_node_memory = GetParam().ranks == 1 || GetParam().per_node > 1;
  run_ranks(
      GetParam().ranks,
      [has_node_memory](Context& ctx) {
        const Arena arena = ctx.allocate(3 * 40000);
        std::vector<std::span<float>> parts;
        std::vector<NamedTensor> gradients;
        for (std::size_t t = 0; t < 3; ++t) {
          parts.emplace_back(reinterpret_cast<float*>(arena.bytes().data()) + t * 10000, 9999);
          gradients.push_back({"part" + std::to_string(t), TensorView(parts.back())});
        }
        GradientSync sync(ctx, gradients, {.op = ReduceOp::kSum, .bucket_bytes = 40000});
        EXPECT_EQ(sync.is_tuning(), ctx.size() > 1);
        EXPECT_EQ(sync.is_in_place(0), has_node_memory);
        for (int step = 0; step < kManySteps; ++step) {
          for (std::size_t t = 0; t < 3; ++t)
            for (std::size_t i = 0; i < parts[t].size(); ++i)
              parts[t][i] = WholeModel::value(ctx.rank(), step, t, i);
          sync.exchange();
          for (std::size_t t = 0; t < 3; ++t)
            for (std::size_t i = 0; i < parts[t].size(); ++i) {
              float sum = 0;
              for (int r = 0; r < ctx.size(); ++r) sum += WholeModel::value(r, step, t, i);
              ASSERT_EQ(parts[t][i], sum) << "step " << step << " tensor " << t << " index " << i;
            }
          // The second trial has hierarchical=0, which copies. Later trials depend on the measured
          // times.
          if (may_choose(GetParam()) && step >= 9) continue;
          const bool copies = may_choose(GetParam()) && step >= 4;
          EXPECT_EQ(sync.is_in_place(0), has_node_memory && !copies) << "after step " << step;
        }
        EXPECT_FALSE(sync.is_tuning());
      },
      tuned(GetParam()));
}

TEST_P(Autotune, OptionOverridesSetting) {
  for (const bool is_enabled : {true, false})
    run_ranks(
        GetParam().ranks,
        [&](Context& ctx) {
          WholeModel model(5);
          GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum, .autotune = is_enabled});
          EXPECT_EQ(sync.is_tuning(), is_enabled && ctx.size() > 1);
          EXPECT_EQ(tune_to_end(ctx, sync, model) > 0, is_enabled && ctx.size() > 1);
        },
        tuned(GetParam(), is_enabled ? "off" : "on"));
}

TEST(Autotune, RejectsDifferentOptions) {
  run_ranks(2, [](Context& ctx) {
    WholeModel model;
    EXPECT_THAT(
        error_text<MismatchError>(
            [&] { GradientSync(ctx, model.gradients(), {.autotune = ctx.rank() == 0}); }),
        AllOf(HasSubstr("autotune = true on rank 0"), HasSubstr("autotune = false on rank 1")));
  });
}

}  // namespace
}  // namespace horo
