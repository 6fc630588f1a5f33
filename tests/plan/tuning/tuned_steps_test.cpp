#include <gmock/gmock.h>

#include <atomic>
#include <mutex>
#include <stdexcept>

#include "tests/plan/tuning/tuned_job.h"

namespace horo {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;

class TunedSteps : public ::testing::TestWithParam<JobShape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, TunedSteps,
                         ::testing::Values(JobShape{2, 2}, JobShape{3, 1}, JobShape{4, 2}),
                         name_of_shape);

const JobShape kTunedStepShapes[] = {{2, 2},
                                     {3, 1},
                                     {4, 2},
                                     {2, 2, MemoryKind::kDevice},
                                     {3, 1, MemoryKind::kDevice},
                                     {4, 2, MemoryKind::kDevice}};
class TunedStepsInMemory : public ::testing::TestWithParam<JobShape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, TunedStepsInMemory, ::testing::ValuesIn(kTunedStepShapes),
                         name_of_shape);

TEST_P(TunedStepsInMemory, IgnorePassesWithoutExchange) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel model(GetParam().memory);
        GradientSync sync(ctx, model.gradients(),
                          {.op = ReduceOp::kSum, .backward_passes_per_step = 3});
        int steps = 0;
        for (; sync.is_tuning(); ++steps) {
          ASSERT_LT(steps, 60);
          for (int pass = 0; pass < 2; ++pass) {
            const std::uint64_t before = ctx.counters().collectives;
            model.mark_all(sync);
            EXPECT_FALSE(sync.wait().was_exchanged);
            EXPECT_EQ(ctx.counters().collectives, before);
          }
          expect_exact_step(ctx, sync, model, steps);
        }
        EXPECT_GE(steps, 8);
      },
      tuned(GetParam()));
}

TEST_P(TunedStepsInMemory, RanksMayStopEarly) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel model(GetParam().memory);
        GradientSync sync(ctx, model.gradients(), {.weighted = true});
        const int own_steps = 5 + 40 * ctx.rank();
        for (int step = 0; step < own_steps; ++step) {
          model.compute(ctx.rank(), step);
          model.mark_all(sync);
          sync.wait();
          float sum = 0;
          int live = 0;
          for (int r = 0; r < ctx.size(); ++r)
            if (step < 5 + 40 * r) {
              sum += WholeModel::value(r, step, 3, 5);
              ++live;
            }
          ASSERT_NEAR(model.values[3][5], sum / static_cast<float>(live), 1e-3f);
        }
        EXPECT_EQ(model.memory.join(sync), ctx.size() - 1);
        // After a step without data, all ranks still make the same choices.
        for (int step = 0; step < kManySteps; ++step) {
          model.compute(ctx.rank(), step);
          model.exchange(sync);
          ASSERT_NEAR(model.values[3][5],
                      WholeModel::value(0, step, 3, 5) + 4 * static_cast<float>(ctx.size() - 1),
                      1e-3f);
        }
        EXPECT_FALSE(sync.is_tuning());
      },
      tuned(GetParam()));
}

TEST_P(TunedStepsInMemory, ReorderBeforeTuning) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel model(GetParam().memory);
        GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum, .reorder = true});
        for (int step = 0; step < kManySteps; ++step) {
          model.compute(ctx.rank(), step);
          for (std::size_t k = 0; k < model.values.size(); ++k)
            model.ready(sync, (2 * k + 1) % model.values.size());
          sync.wait();
          if (step == 0) continue;  // the ranks receive the order in the next step
          std::vector<std::size_t> packed;
          for (std::size_t b = 0; b < sync.bucket_count(); ++b)
            packed.insert(packed.end(), sync.bucket(b).begin(), sync.bucket(b).end());
          for (std::size_t k = 0; k < packed.size(); ++k) ASSERT_EQ(packed[k], (2 * k + 1) % 11);
          for (std::size_t t = 0; t < model.values.size(); ++t) {
            float sum = 0;
            for (int r = 0; r < ctx.size(); ++r) sum += WholeModel::value(r, step, t, 0);
            ASSERT_EQ(model.values[t][0], sum);
          }
        }
        EXPECT_FALSE(sync.is_tuning());
      },
      tuned(GetParam()));
}

TEST_P(TunedStepsInMemory, TuneNewGradientsOnly) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel model(GetParam().memory), other(7, GetParam().memory);
        GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum});
        for (int step = 0; step < 7; ++step) expect_exact_step(ctx, sync, model, step);
        sync.update(
            other.gradients());  // in the second trial, with another algorithm if there is one
        EXPECT_TRUE(sync.is_tuning());
        EXPECT_GE(tune_to_end(ctx, sync, other), 8);
        const std::size_t buckets = sync.bucket_count();
        sync.update(model.gradients());
        EXPECT_GE(tune_to_end(ctx, sync, model), 8);
        WholeModel moved(7, GetParam().memory);
        sync.update(moved.gradients());
        EXPECT_FALSE(sync.is_tuning());
        EXPECT_EQ(sync.bucket_count(), buckets);
        expect_exact_step(ctx, sync, moved, 3);
      },
      tuned(GetParam()));
}

TEST_P(TunedStepsInMemory, UpdateOfOneRankFailsAllRanks) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel model(GetParam().memory);
        GradientSync sync(ctx, model.gradients(), {.name = "net", .op = ReduceOp::kSum});
        for (int step = 0; step < 9; ++step) expect_exact_step(ctx, sync, model, step);
        const std::string text = error_text<MismatchError>([&] {
          if (ctx.rank() == 1) {
            sync.update(model.gradients());
          } else {
            model.mark_all(sync);
            sync.wait();
          }
        });
        EXPECT_THAT(text, HasSubstr("called update() after 9 steps"));
        EXPECT_TRUE(sync.is_tuning());
        sync.update(model.gradients());
        EXPECT_GE(tune_to_end(ctx, sync, model), 8);
      },
      tuned(GetParam()));
}

TEST_P(TunedSteps, KeepCompressionState) {
  // The values of top-k are added in rank order, so the bits are those of a run without tuning.
  std::mutex mutex;
  std::vector<std::vector<float>> results;
  const auto run = [&](const char* autotune) {
    run_ranks(
        GetParam().ranks,
        [&](Context& ctx) {
          WholeModel model;
          GradientSync sync(ctx, model.gradients(),
                            {.compression = {.kind = Compression::Kind::kTopK, .fraction = 0.05}});
          std::vector<float> all;
          for (int step = 0; step < kManySteps; ++step) {
            model.compute(ctx.rank(), step);
            sync.exchange();
            for (const auto& values : model.values)
              all.insert(all.end(), values.begin(), values.end());
          }
          const std::scoped_lock lock(mutex);
          results.push_back(std::move(all));
        },
        tuned(GetParam(), autotune));
  };
  run("off");
  run("on");
  for (const auto& result : results) EXPECT_TRUE(result == results[0]);
}

TEST_P(TunedSteps, TryRequestedWireType) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        std::vector<float> x(30000);
        std::vector<NamedTensor> gradients = {{"x", TensorView(x)}};
        GradientSync sync(ctx, gradients, {.tune_wire = DataType::kBFloat16});
        for (int step = 0; step < kManySteps; ++step) {
          for (std::size_t i = 0; i < x.size(); ++i)
            x[i] = static_cast<float>(ctx.rank() + 1) * static_cast<float>(i % 64 + 1);
          sync.exchange();
          for (std::size_t i = 0; i < x.size(); ++i) {
            const float expected =
                0.5f * static_cast<float>(ctx.size() + 1) * static_cast<float>(i % 64 + 1);
            ASSERT_NEAR(x[i], expected, 0.03f * expected);
          }
        }
        EXPECT_FALSE(sync.is_tuning());
        const bool has_nodes = GetParam().ranks > GetParam().per_node;
        EXPECT_EQ(sync.wire_report().bytes_saved > 0, has_nodes);
      },
      tuned(GetParam()));
}

TEST_P(TunedStepsInMemory, FailedRankEndsSearchOfOthers) {
  for (const int last : {0, 4, 5, 12, 17}) {
    std::atomic<int> ended = 0;
    const auto rank_function = [&](Context& ctx) {
      // At this time, the other ranks are in the step or in the messages of tuning.
      const auto train = [&] {
        WholeModel model(GetParam().memory);
        GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum});
        for (int step = 0; step < last; ++step) expect_exact_step(ctx, sync, model, step);
        if (ctx.rank() == 1) throw std::runtime_error("out of luck");
        model.mark_all(sync);
        sync.wait();
      };
      if (ctx.rank() == 1) train();
      const std::string text = error_text<CommunicationError>(train);
      EXPECT_THAT(text, HasSubstr("rank 1")) << last;
      ++ended;
      throw CommunicationError(text);
    };
    EXPECT_THROW(run_ranks(GetParam().ranks, rank_function, tuned(GetParam())), Error);
    EXPECT_EQ(ended, GetParam().ranks - 1) << last;
  }
}

// In device memory, the plan of a rank that has begun the exchange of the step fails instead.
TEST_P(TunedSteps, MayBeDestroyedDuringStep) {
  for (const bool reorder : {false, true})
    run_ranks(
        GetParam().ranks,
        [&](Context& ctx) {
          WholeModel model;
          for (const int last : {0, 1, 2, 3, 5, 6}) {
            GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum, .reorder = reorder});
            for (int step = 0; step < last; ++step) {
              model.compute(ctx.rank(), step);
              mark_in_odd_order(model, sync);
              sync.wait();
              expect_sums(ctx, model, step);
            }
            EXPECT_TRUE(sync.is_tuning());
            mark_in_odd_order(model, sync);
          }
          GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum, .reorder = reorder});
          EXPECT_GE(tune_to_end(ctx, sync, model), 8);
        },
        tuned(GetParam()));
}

TEST_P(TunedSteps, RespectForcedAlgorithm) {
  for (const char* algorithm : {"ring", "hierarchical", "parameter_server"}) {
    testing::RunOptions options = tuned(GetParam());
    options.environment.push_back("HORO_ALGORITHM=" + std::string(algorithm));
    run_ranks(
        GetParam().ranks,
        [](Context& ctx) {
          WholeModel model;
          GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum});
          EXPECT_GE(tune_to_end(ctx, sync, model), 8);
          expect_exact_step(ctx, sync, model, 3);
        },
        options);
  }
}

TEST(TunedSteps, WorkInProcessSet) {
  run_ranks(
      4,
      [](Context& ctx) {
        ProcessSet set = ctx.new_process_set({0, 1, 3});
        if (!set.includes_me()) return;
        WholeModel model;
        GradientSync sync(set, model.gradients(), {.op = ReduceOp::kSum});
        EXPECT_TRUE(sync.is_tuning());
        EXPECT_GE(tune_to_end(set, sync, model), 8);
        expect_exact_step(set, sync, model, 7);
      },
      tuned({4, 2}));
}

}  // namespace
}  // namespace horo
