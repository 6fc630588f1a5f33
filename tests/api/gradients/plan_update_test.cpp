#include <gmock/gmock.h>

#include <numeric>
#include <thread>

#include "tests/api/gradients/gradient_model.h"

namespace horo {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::run_ranks;

class PlanUpdate : public ::testing::TestWithParam<JobShape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, PlanUpdate, ::testing::ValuesIn(kStepShapes), name_of_shape);

TEST_P(PlanUpdate, SupportsNewShapesAndFrozenLayers) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel model(GetParam().memory);
        GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum, .bucket_bytes = 3000});
        for (int step = 0; step < 3; ++step) expect_exact_step(ctx, sync, model, step);
        model.values[4].resize(77);
        model.values.resize(8);
        sync.update(model.gradients());
        const std::uint64_t before = ctx.counters().control_messages_sent;
        for (int step = 3; step < 103; ++step) expect_exact_step(ctx, sync, model, step);
        EXPECT_EQ(ctx.counters().control_messages_sent, before);
        model.add(5000);
        sync.update(model.gradients());
        sync.update(model.gradients());
        expect_exact_step(ctx, sync, model, 200);
      },
      GetParam().options());
}

TEST_P(PlanUpdate, UpdateDuringExchangeFailsAllRanks) {
  if (GetParam().ranks == 1) return;
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel model(GetParam().memory);
        GradientSync sync(ctx, model.gradients(),
                          {.name = "net", .op = ReduceOp::kSum, .bucket_bytes = 3000});
        for (int round = 0; round < 3; ++round) {
          for (int step = 0; step < 2; ++step) expect_exact_step(ctx, sync, model, step);
          const int updater = (round + 1) % ctx.size();
          const std::string text = error_text<MismatchError>([&] {
            if (ctx.rank() == updater) {
              sync.update(model.gradients());
            } else {
              model.mark_all(sync);
              // Long enough for the plan's thread to get the error before the caller waits.
              if (round == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
              sync.wait();
            }
          });
          EXPECT_THAT(text, AllOf(HasSubstr("gradients 'net': rank " + std::to_string(updater)),
                                  HasSubstr("called update() after " +
                                            std::to_string(2 * (round + 1)) + " steps"),
                                  HasSubstr("exchanges another step")));
          sync.update(model.gradients());
        }
        expect_exact_step(ctx, sync, model, 9);
      },
      GetParam().options());
}

TEST_P(PlanUpdate, MismatchKeepsFormerPlan) {
  if (GetParam().ranks == 1) return;
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel model(GetParam().memory);
        GradientSync sync(ctx, model.gradients(), {.name = "net", .op = ReduceOp::kSum});
        expect_exact_step(ctx, sync, model, 0);
        WholeModel other(GetParam().memory);
        if (ctx.rank() == 1) other.values[2].resize(5);
        EXPECT_THAT(error_text<MismatchError>([&] { sync.update(other.gradients()); }),
                    AllOf(HasSubstr("gradients 'net': tensor 'layer2'"), HasSubstr("rank 1")));
        expect_exact_step(ctx, sync, model, 1);
      },
      GetParam().options());
}

class PlanUpdateIn : public ::testing::TestWithParam<MemoryKind> {};
INSTANTIATE_TEST_SUITE_P(Memory, PlanUpdateIn, ::testing::ValuesIn(kMemoryKinds));

TEST_P(PlanUpdateIn, WaitsForComputingRank) {
  run_ranks(3, [](Context& ctx) {
    WholeModel model(GetParam());
    GradientSync sync(ctx, model.gradients(), {.op = ReduceOp::kSum});
    expect_exact_step(ctx, sync, model, 0);
    if (ctx.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    sync.update(model.gradients());
    expect_exact_step(ctx, sync, model, 1);
  });
}

TEST(PlanUpdate, MovesIntoArenaBetweenSteps) {
  run_ranks(2, [](Context& ctx) {
    std::vector<float> x(5000, 1.0f);
    std::vector<NamedTensor> gradients = {{"x", TensorView(x)}};
    GradientSync sync(ctx, gradients,
                      {.backward_passes_per_step = 2, .find_unused = true, .clip_norm = 1e9});
    sync.ready(0);
    EXPECT_THAT(error_text<InvalidArgument>([&] { sync.update(gradients); }), HasSubstr("between"));
    sync.wait();
    EXPECT_THAT(error_text<InvalidArgument>([&] { sync.update(gradients); }),
                HasSubstr("several passes"));
    sync.wait();
    EXPECT_FALSE(sync.is_in_place(0));
    const Arena arena = ctx.allocate(20000);
    const std::span<float> memory(reinterpret_cast<float*>(arena.bytes().data()), 5000);
    std::ranges::fill(memory, static_cast<float>(ctx.rank()));
    gradients[0].tensor = TensorView(memory);
    sync.update(gradients);
    EXPECT_TRUE(sync.is_in_place(0));
    EXPECT_FALSE(sync.wait().was_exchanged);
    sync.ready(0);
    EXPECT_TRUE(sync.wait().was_exchanged);
    EXPECT_EQ(memory[4999], 0.5f);
  });
}

class Packing : public ::testing::TestWithParam<JobShape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, Packing, ::testing::ValuesIn(kStepShapes), name_of_shape);

TEST_P(Packing, FirstBucketHasOwnSize) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel model(GetParam().memory);
        GradientSync sync(
            ctx, model.gradients(),
            {.op = ReduceOp::kSum, .bucket_bytes = 1 << 20, .first_bucket_bytes = 4000});
        ASSERT_EQ(sync.bucket_count(), 2u);
        std::size_t bytes = 0;
        for (const std::size_t i : sync.bucket(0)) bytes += 4 * model.values[i].size();
        EXPECT_LE(bytes, 4000u);
        EXPECT_GT(bytes + 4 * model.values[sync.bucket(1).front()].size(), 4000u);
        expect_exact_step(ctx, sync, model, 0);
      },
      GetParam().options());
}

// At the end of the second step, the ranks make new buckets and agree on their memory. One rank may
// have done this and call update() while messages to the others are still delayed.
TEST_P(Packing, UpdateMayFollowNewBuckets) {
  if (GetParam().memory == MemoryKind::kHost) return;  // its buckets need no agreement
  testing::RunOptions options = GetParam().options();
  options.max_delay = std::chrono::milliseconds(20);
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel model(GetParam().memory);
        GradientSync sync(ctx, model.gradients(),
                          {.op = ReduceOp::kSum, .bucket_bytes = 3000, .reorder = true});
        for (int step = 0; step < 2; ++step) {
          model.compute(ctx.rank(), step);
          for (std::size_t k = 0; k < model.values.size(); ++k)
            model.ready(sync, (2 * k + 1) % model.values.size());
          sync.wait();
        }
        sync.update(model.gradients());
        expect_exact_step(ctx, sync, model, 2);
      },
      options);
}

TEST_P(Packing, FollowsMarksOfRankZeroFromThirdStep) {
  run_ranks(
      GetParam().ranks,
      [](Context& ctx) {
        WholeModel model(GetParam().memory);
        GradientSync sync(ctx, model.gradients(),
                          {.op = ReduceOp::kSum, .bucket_bytes = 3000, .reorder = true});
        for (int step = 0; step < 4; ++step) {
          model.compute(ctx.rank(), step);
          // Each rank has a different order: rank 0 marks the odd gradients first.
          for (std::size_t k = 0; k < model.values.size(); ++k)
            model.ready(sync,
                        (2 * k + 1 + static_cast<std::size_t>(ctx.rank())) % model.values.size());
          sync.wait();
          std::vector<std::size_t> packed;
          for (std::size_t b = 0; b < sync.bucket_count(); ++b)
            packed.insert(packed.end(), sync.bucket(b).begin(), sync.bucket(b).end());
          std::vector<std::size_t> expected(model.values.size());
          for (std::size_t k = 0; k < expected.size(); ++k) expected[k] = (2 * k + 1) % 11;
          // The ranks receive the order in the next step.
          EXPECT_EQ(packed == expected, step > 0);
          for (std::size_t t = 0; t < model.values.size(); ++t) {
            float sum = 0;
            for (int r = 0; r < ctx.size(); ++r) sum += WholeModel::value(r, step, t, 0);
            ASSERT_EQ(model.values[t][0], sum);
          }
        }
      },
      GetParam().options());
}

}  // namespace
}  // namespace horo
