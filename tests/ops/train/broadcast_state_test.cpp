#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "horo/testing.h"
#include "ops/optim/adamw.h"
#include "ops/optim/sgd.h"
#include "ops/train/step/model_state.h"

namespace horo::ops {
namespace {

using ::testing::HasSubstr;

/// Parameters and buffers of several shapes, with nothing to compute.
class PassThrough : public Layer {
 public:
  PassThrough(std::size_t parameters, std::size_t buffers) {
    for (std::size_t i = 0; i < parameters; ++i) add(parameters_, i);
    for (std::size_t i = 0; i < buffers; ++i) add(buffers_, i);
  }
  Tensor forward(Tensor input, const Pass&) override { return input; }
  Tensor backward(Tensor gradient, const GradientReady&) override { return gradient; }
  std::vector<Parameter*> parameters() override { return pointers_to(parameters_); }
  std::vector<Parameter*> buffers() override { return pointers_to(buffers_); }

 private:
  using Tensors = std::vector<std::unique_ptr<Parameter>>;
  static void add(Tensors& to, std::size_t i) {
    const Shape shape{i * 5 % 7 + 1, i % 3 + 1};
    to.push_back(std::make_unique<Parameter>(
        Parameter{"t" + std::to_string(i), Tensor::zeros(shape), Tensor::zeros(shape)}));
  }
  static std::vector<Parameter*> pointers_to(const Tensors& tensors) {
    std::vector<Parameter*> pointers;
    for (const auto& tensor : tensors) pointers.push_back(tensor.get());
    return pointers;
  }
  Tensors parameters_, buffers_;
};

std::vector<Tensor*> state_of(Layer& model, Optimizer& optimizer) {
  std::vector<Tensor*> state;
  for (Parameter* parameter : model.parameters()) state.push_back(&parameter->value);
  for (Parameter* buffer : model.buffers()) state.push_back(&buffer->value);
  for (const Optimizer::State& kind : optimizer.states())
    for (Tensor& tensor : kind.tensors) state.push_back(&tensor);
  return state;
}

float value_of(int rank, std::size_t tensor, std::size_t i) {
  return static_cast<float>(rank * 1000) + static_cast<float>(tensor * 10 + i);
}

TEST(BroadcastState, TakesOneLaunch) {
  for (const int ranks : {1, 2, 3, 4})
    for (const char* per_node : {"HORO_RANKS_PER_NODE=0", "HORO_RANKS_PER_NODE=1"}) {
      testing::RunOptions options;
      options.environment = {per_node};
      testing::run_ranks(
          ranks,
          [](Context& context) {
            PassThrough model(23, 5);
            Sgd optimizer(model.parameters(), {.momentum = 0.9f});
            const auto state = state_of(model, optimizer);
            ASSERT_EQ(state.size(), 23u + 5u + 23u);
            for (std::size_t t = 0; t < state.size(); ++t)
              for (std::size_t i = 0; i < state[t]->values().size(); ++i)
                state[t]->values()[i] = value_of(context.rank(), t, i);
            const Counters before = context.counters();
            broadcast_state(context, model, optimizer);
            EXPECT_EQ(context.counters().collectives - before.collectives, 1u);
            EXPECT_EQ(context.counters().tensors - before.tensors, state.size());
            for (std::size_t t = 0; t < state.size(); ++t)
              for (std::size_t i = 0; i < state[t]->values().size(); ++i)
                ASSERT_EQ(state[t]->values()[i], value_of(0, t, i)) << t;
          },
          options);
    }
}

TEST(BroadcastState, BroadcastsMomentsAndStepsOfAdamW) {
  testing::run_ranks(3, [](Context& context) {
    PassThrough model(4, 1);
    AdamW optimizer(model.parameters(), {});
    optimizer.set_steps(7 + context.rank());
    const auto state = state_of(model, optimizer);
    ASSERT_EQ(state.size(), 4u + 1u + 2 * 4u);
    for (std::size_t t = 0; t < state.size(); ++t) state[t]->fill(value_of(context.rank(), t, 0));
    broadcast_state(context, model, optimizer);
    for (std::size_t t = 0; t < state.size(); ++t)
      EXPECT_EQ(state[t]->values().back(), value_of(0, t, 0)) << t;
    EXPECT_EQ(optimizer.steps(), 7);
  });
}

TEST(BroadcastState, AcceptsAModelWithoutState) {
  testing::run_ranks(2, [](Context& context) {
    PassThrough model(0, 0);
    Sgd optimizer(model.parameters(), {});
    const Counters before = context.counters();
    broadcast_state(context, model, optimizer);
    EXPECT_EQ(context.counters().collectives, before.collectives);
  });
}

TEST(BroadcastState, ThrowsMismatchOnEveryRank) {
  testing::run_ranks(3, [](Context& context) {
    for (const bool is_model_larger : {true, false}) {
      const bool is_other = context.rank() == 2;
      PassThrough model(is_other && is_model_larger ? 4 : 3, 0);
      Sgd optimizer(model.parameters(), {.momentum = is_other && !is_model_larger ? 0.0f : 0.9f});
      try {
        broadcast_state(context, model, optimizer);
        ADD_FAILURE() << "no error";
      } catch (const MismatchError& error) {
        EXPECT_THAT(error.what(), HasSubstr("rank 2 (host thread-node-0)"));
      }
    }
  });
}

}  // namespace
}  // namespace horo::ops
