#include "ops/parallel/parallel_linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "horo/testing.h"
#include "ops/nn/layers/gelu.h"
#include "ops/nn/loss.h"
#include "ops/nn/sequential.h"
#include "ops/optim/sgd.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;

constexpr LinearOptions kUp{.in_features = 5, .out_features = 12};
constexpr LinearOptions kDown{.in_features = 12, .out_features = 3};

std::vector<float> train_mlp(Sequential& model, int steps, std::vector<float>* losses) {
  Sgd optimizer(model.parameters(), {.learning_rate = 0.2f, .momentum = 0.5f});
  std::vector<float> last;
  for (int step = 0; step < steps; ++step) {
    const Tensor x = varied_tensor({6, 5}, static_cast<std::uint32_t>(step % 2) + 1);
    const Tensor target = varied_tensor({6, 3}, static_cast<std::uint32_t>(step % 2) + 100);
    BatchScore score;
    float loss = 0;
    Tensor gradient = MeanSquaredError().backward(
        cpu_backend(), model.forward(x.clone(), {.training = true}), target, 6, &score, &loss);
    last = values_of(model.backward(std::move(gradient), {}));
    optimizer.step();
    losses->push_back(loss);
  }
  return last;
}

TEST(ParallelLinear, TrainsAsOneRankWithTheWholeModel) {
  Sequential whole;
  whole.add("up", Linear(kUp)).add("gelu", Gelu()).add("down", Linear(kDown));
  std::vector<float> expected;
  const std::vector<float> input_gradient = train_mlp(whole, 12, &expected);
  for (const int ranks : {1, 2, 3, 4})
    run_ranks(ranks, [&](Context& ctx) {
      Sequential model;
      model.add("up", std::make_unique<ColumnParallelLinear>(ctx, kUp, "up"))
          .add("gelu", Gelu())
          .add("down", std::make_unique<RowParallelLinear>(ctx, kDown, "down"));
      std::vector<float> losses;
      const std::vector<float> gradient = train_mlp(model, 12, &losses);
      for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5);
      EXPECT_LT(losses.back(), 0.9f * losses[1]);
      expect_close(gradient, in_double(input_gradient), 1e-5);
      auto& up = dynamic_cast<ParallelLinear&>(model[0]);
      auto& down = dynamic_cast<ParallelLinear&>(model[2]);
      expect_close(up.gather_weight().values(),
                   in_double(dynamic_cast<Linear&>(whole[0]).weight().value.values()), 1e-5);
      expect_close(down.gather_weight().values(),
                   in_double(dynamic_cast<Linear&>(whole[2]).weight().value.values()), 1e-5);
      EXPECT_EQ(up.weight().value.count() * static_cast<std::size_t>(ranks), 60u);
      if (ctx.rank() == 0) {
        expect_close(down.bias().value.values(),
                     in_double(dynamic_cast<Linear&>(whole[2]).bias().value.values()), 1e-5);
      }
    });
}

TEST(ParallelLinear, LoadKeepsThePartOfTheRank) {
  run_ranks(3, [](Context& ctx) {
    const Tensor weight = varied_tensor({3, 12}, 5), bias = varied_tensor({3}, 6);
    RowParallelLinear row(ctx, kDown, "row");
    ColumnParallelLinear column(ctx, {.in_features = 12, .out_features = 3}, "column");
    for (ParallelLinear* layer :
         {static_cast<ParallelLinear*>(&row), static_cast<ParallelLinear*>(&column)}) {
      layer->load(weight, bias);
      EXPECT_EQ(values_of(layer->gather_weight()), values_of(weight));
      EXPECT_THAT(message_of<InvalidArgument>([&] { layer->load(bias, bias); }),
                  HasSubstr("load() got a weight [3]"));
    }
    EXPECT_EQ(column.bias().value.values()[0], bias.values()[static_cast<std::size_t>(ctx.rank())]);
    EXPECT_EQ(row.bias().value.count(), ctx.rank() == 0 ? 3u : 0u);
  });
}

TEST(ParallelLinear, RefusesUnevenFeatures) {
  run_ranks(5, [](Context& ctx) {
    EXPECT_THAT(message_of<InvalidArgument>([&] { ColumnParallelLinear layer(ctx, kUp, "up"); }),
                HasSubstr("up: 12 output features cannot be divided evenly among 5 ranks"));
    EXPECT_THAT(message_of<InvalidArgument>([&] { RowParallelLinear layer(ctx, kDown, "down"); }),
                HasSubstr("down: 12 input features cannot be divided evenly among 5 ranks"));
  });
}

}  // namespace
}  // namespace horo::ops
