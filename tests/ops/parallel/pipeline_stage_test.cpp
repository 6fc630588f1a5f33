#include "ops/parallel/pipeline_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include "horo/testing.h"
#include "ops/nn/layers/batch_norm.h"
#include "ops/nn/layers/linear.h"
#include "ops/nn/layers/relu.h"
#include "ops/nn/sequential.h"
#include "ops/optim/sgd.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::run_ranks;
using PassOf = PipelinePass::Kind;

TEST(PipelineSchedule, AlternatesForwardAndBackward) {
  using P = PipelinePass;
  EXPECT_THAT(
      one_forward_one_backward(0, 2, 3),
      ElementsAre(P{PassOf::kForward, 0}, P{PassOf::kForward, 1}, P{PassOf::kBackward, 0},
                  P{PassOf::kForward, 2}, P{PassOf::kBackward, 1}, P{PassOf::kBackward, 2}));
  EXPECT_THAT(one_forward_one_backward(1, 2, 2),
              ElementsAre(P{PassOf::kForward, 0}, P{PassOf::kBackward, 0}, P{PassOf::kForward, 1},
                          P{PassOf::kBackward, 1}));
}

// Simulates the stages with blocking receives: all passes run, and few micro-batches are in flight.
TEST(PipelineSchedule, CompletesWithFewMicroBatchesInFlight) {
  for (std::size_t stages = 1; stages <= 6; ++stages)
    for (std::size_t micro_batches = 1; micro_batches <= 9; ++micro_batches) {
      std::vector<std::vector<PipelinePass>> passes(stages);
      std::vector<std::size_t> at(stages, 0);
      std::vector<std::set<std::size_t>> forward(stages), backward(stages);
      for (std::size_t s = 0; s < stages; ++s)
        passes[s] = one_forward_one_backward(s, stages, micro_batches);
      for (bool did_any = true; did_any;) {
        did_any = false;
        for (std::size_t s = 0; s < stages; ++s) {
          if (at[s] == passes[s].size()) continue;
          const auto [kind, k] = passes[s][at[s]];
          const bool is_forward = kind == PassOf::kForward;
          const bool has_input = is_forward ? s == 0 || forward[s - 1].contains(k)
                                            : s + 1 == stages || backward[s + 1].contains(k);
          if (!has_input) continue;
          if (!is_forward) {
            ASSERT_TRUE(forward[s].contains(k));
          }
          ASSERT_TRUE((is_forward ? forward : backward)[s].insert(k).second);
          ASSERT_LE(forward[s].size() - backward[s].size(), stages - s);
          ++at[s];
          did_any = true;
        }
      }
      for (std::size_t s = 0; s < stages; ++s)
        ASSERT_EQ(backward[s].size(), micro_batches) << stages << " stages, stage " << s;
    }
}

constexpr std::size_t kPipelineRows = 3;  // of a micro-batch

std::unique_ptr<Sequential> pipeline_part(std::size_t first, std::size_t last) {
  auto model = std::make_unique<Sequential>();
  constexpr std::size_t kWidths[] = {4, 9, 7, 5, 2};
  for (std::size_t i = first; i < last; ++i) {
    model->add("fc" + std::to_string(i),
               Linear({.in_features = kWidths[i], .out_features = kWidths[i + 1]}));
    Parameter* const weight = model->parameters()[(i - first) * 2];
    assign(weight->value, varied_values(weight->value.count(), static_cast<std::uint32_t>(i) + 1));
    if (i + 1 < 4) model->add("relu" + std::to_string(i), Relu());
  }
  return model;
}

std::vector<float> all_values(Sequential& model) {
  std::vector<float> values;
  for (const Parameter* parameter : model.parameters())
    std::ranges::copy(parameter->value.values(), std::back_inserter(values));
  return values;
}

TEST(PipelineStages, TrainAsOneRankWithTheWholeModel) {
  constexpr std::size_t kMicroBatches = 5;
  constexpr int kSteps = 8;
  const auto input = [](int step) {
    return varied_tensor({kMicroBatches * kPipelineRows, 4}, static_cast<std::uint32_t>(step) + 1);
  };
  const auto target = [](int step) {
    return varied_tensor({kMicroBatches * kPipelineRows, 2}, static_cast<std::uint32_t>(step) + 70);
  };
  const auto whole = pipeline_part(0, 4);
  std::vector<double> losses;
  {
    Sgd optimizer(whole->parameters(), {.learning_rate = 0.05f});
    for (int step = 0; step < kSteps; ++step) {
      BatchScore score;
      float loss = 0;
      Tensor gradient = MeanSquaredError().backward(
          cpu_backend(), whole->forward(input(step), {.training = true}), target(step),
          kMicroBatches * kPipelineRows, &score, &loss);
      whole->backward(std::move(gradient), {});
      optimizer.step();
      losses.push_back(static_cast<double>(loss));
    }
  }
  const std::vector<float> expected = all_values(*whole);
  for (const std::size_t stages : {1, 2, 4})
    run_ranks(static_cast<int>(stages), [&](Context& ctx) {
      const auto stage = static_cast<std::size_t>(ctx.rank());
      const std::size_t first = stage * 4 / stages, last = (stage + 1) * 4 / stages;
      const auto model = pipeline_part(first, last);
      constexpr std::size_t kWidths[] = {4, 9, 7, 5, 2};
      PipelineStage pipeline(ctx, *model,
                             {.stage = stage,
                              .stages = stages,
                              .previous = ctx.rank() - 1,
                              .next = ctx.rank() + 1,
                              .micro_batches = kMicroBatches,
                              .input_shape = {kPipelineRows, kWidths[first]}});
      Sgd optimizer(model->parameters(), {.learning_rate = 0.05f});
      for (int step = 0; step < kSteps; ++step) {
        const auto part_of = [&](const Tensor& all, std::size_t k) {
          return all.rows(k * kPipelineRows, kPipelineRows).clone();
        };
        const double loss =
            pipeline.run([&](std::size_t k) { return part_of(input(step), k); },
                         [&](std::size_t k) { return part_of(target(step), k); },
                         MeanSquaredError(), kMicroBatches * kPipelineRows, {.training = true});
        optimizer.step();
        EXPECT_NEAR(loss, stage + 1 == stages ? losses[static_cast<std::size_t>(step)] : 0.0, 1e-5);
      }
      const std::vector<float> own = all_values(*model);
      // The parameters of the stages, in order, are those of the whole model.
      std::vector<std::byte> bytes(own.size() * sizeof(float));
      std::memcpy(bytes.data(), own.data(), bytes.size());
      std::vector<float> gathered;
      for (const auto& part : ctx.allgather_object(bytes)) {
        const auto* values = reinterpret_cast<const float*>(part.data());
        gathered.insert(gathered.end(), values, values + part.size() / sizeof(float));
      }
      expect_close(gathered, in_double(expected), 1e-5);
    });
}

TEST(PipelineStages, RefuseInvalidOptions) {
  run_ranks(1, [](Context& ctx) {
    const auto model = pipeline_part(0, 1);
    const auto text = [&](Layer& layer, const PipelineStageOptions& options) {
      return message_of<InvalidArgument>([&] { PipelineStage stage(ctx, layer, options); });
    };
    EXPECT_THAT(text(*model, {.stage = 2, .stages = 2}),
                HasSubstr("stage 2 is not one of the 2 stages"));
    EXPECT_THAT(text(*model, {.micro_batches = 0}), HasSubstr("at least one micro-batch"));
    BatchNorm norm({.channels = 4});
    EXPECT_THAT(text(norm, {}), HasSubstr("running statistics"));
  });
}

}  // namespace
}  // namespace horo::ops
