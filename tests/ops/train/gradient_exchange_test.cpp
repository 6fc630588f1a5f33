#include "ops/train/gradient_exchange.h"

#include <gtest/gtest.h>

#include "horo/testing.h"
#include "ops/nn/layer.h"

namespace horo::ops {
namespace {

TEST(GradientExchange, AveragesGradientsAndTheLoss) {
  testing::run_ranks(3, [](Context& context) {
    Parameter weight{"weight", Tensor::zeros({2, 5}), Tensor::zeros({2, 5})};
    Parameter bias{"bias", Tensor::zeros({2}), Tensor::zeros({2})};
    GradientExchange exchange(context, {&weight, &bias});
    for (int step = 0; step < 3; ++step) {
      exchange.loss_ready(10 * context.rank() + step);
      bias.gradient.fill(static_cast<float>(context.rank() + step));
      exchange.gradient_ready(bias);
      for (std::size_t i = 0; i < 10; ++i)
        weight.gradient.values()[i] = static_cast<float>(static_cast<int>(i) * context.rank());
      exchange.gradient_ready(weight);
      EXPECT_EQ(exchange.wait(), static_cast<float>(10 + step));
      EXPECT_EQ(bias.gradient.values()[1], static_cast<float>(1 + step));
      for (std::size_t i = 0; i < 10; ++i)
        EXPECT_EQ(weight.gradient.values()[i], static_cast<float>(i));
    }
  });
}

TEST(GradientExchange, CombinesByAdasumAndAveragesLoss) {
  testing::run_ranks(3, [](Context& context) {
    Parameter weight{"weight", Tensor::zeros({5}), Tensor::zeros({5})};
    Parameter bias{"bias", Tensor::zeros({2}), Tensor::zeros({2})};
    GradientExchange exchange(context, {&weight, &bias}, {.op = ReduceOp::kAdasum});
    for (int step = 0; step < 3; ++step) {
      const auto own = static_cast<std::size_t>(context.rank());
      exchange.loss_ready(10 * context.rank() + step);
      weight.gradient.fill(0);
      weight.gradient.values()[own] = static_cast<float>(step + 1);  // orthogonal: they add up
      exchange.gradient_ready(weight);
      bias.gradient.fill(2);  // equal: they average
      exchange.gradient_ready(bias);
      EXPECT_EQ(exchange.wait(), static_cast<float>(10 + step));
      for (std::size_t i = 0; i < 5; ++i)
        EXPECT_EQ(weight.gradient.values()[i], i < 3 ? static_cast<float>(step + 1) : 0.0f);
      EXPECT_EQ(bias.gradient.values()[1], 2.0f);
    }
  });
}

TEST(GradientExchange, GradientsKeepTheirSharedMemory) {
  for (const int ranks_per_node : {1, 2, 4})
    testing::run_ranks(4,
                       [=](Context& context) {
                         Parameter weight{"weight", Tensor::zeros({2, 5}), Tensor::zeros({2, 5})};
                         weight.gradient.fill(static_cast<float>(context.rank()));
                         const float* before = weight.gradient.data();
                         { GradientExchange exchange(context, {&weight}); }
                         EXPECT_EQ(weight.gradient.data() != before, ranks_per_node > 1)
                             << "in memory that other ranks have mapped";
                         EXPECT_EQ(weight.gradient.shape(), (Shape{2, 5}));
                         for (const float value : weight.gradient.values())
                           EXPECT_EQ(value, static_cast<float>(context.rank()));
                       },
                       {.environment = {"HORO_RANKS_PER_NODE=" + std::to_string(ranks_per_node)}});
}

TEST(GradientExchange, RejectsUnregisteredParameter) {
  testing::run_ranks(1, [](Context& context) {
    Parameter weight{"weight", Tensor::zeros({2}), Tensor::zeros({2})};
    Parameter other{"other", Tensor::zeros({2}), Tensor::zeros({2})};
    GradientExchange exchange(context, {&weight});
    EXPECT_THROW(exchange.gradient_ready(other), InvalidArgument);
    exchange.loss_ready(0);
    exchange.gradient_ready(weight);
    exchange.wait();
  });
}

TEST(GradientExchange, ThrowsMismatchForDifferentModels) {
  testing::run_ranks(2, [](Context& context) {
    const std::size_t size = context.rank() == 0 ? 2 : 3;
    Parameter weight{"fc.weight", Tensor::zeros({size}), Tensor::zeros({size})};
    try {
      GradientExchange exchange(context, {&weight});
      ADD_FAILURE() << "no error";
    } catch (const MismatchError& error) {
      EXPECT_NE(std::string(error.what()).find("fc.weight"), std::string::npos) << error.what();
    }
  });
}

}  // namespace
}  // namespace horo::ops
