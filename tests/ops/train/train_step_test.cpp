#include "ops/train/step/train_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "horo/device/host/host_device.h"
#include "horo/testing.h"
#include "ops/optim/sgd.h"
#include "ops/train/step/batch_upload.h"
#include "tests/ops/train/small_task.h"

namespace horo::ops {
namespace {

using ::testing::HasSubstr;

/// Has two parameters. Its gradients are set by the test; the output is the input.
class GivenGradients : public Layer {
 public:
  explicit GivenGradients(std::size_t size) {
    for (Parameter* one : {&weight, &bias}) {
      one->value = Tensor::zeros({one == &weight ? size : 2});
      one->gradient = Tensor::zeros(one->value.shape());
    }
  }
  Tensor forward(Tensor input, const Pass&) override { return input; }
  Tensor backward(Tensor gradient, const GradientReady& ready) override {
    std::ranges::copy(of_weight, weight.gradient.data());
    bias.gradient.fill(of_bias);
    report({&bias, &weight}, ready);
    return gradient;
  }
  std::vector<Parameter*> parameters() override { return {&weight, &bias}; }

  Parameter weight{"weight", {}, {}}, bias{"bias", {}, {}};
  std::vector<float> of_weight;
  float of_bias = 0;
};

Batch lines_batch() { return whole_batch(LinesDataset(4)); }

TEST(TrainStep, AveragesOrCombinesByAdasum) {
  for (const ReduceOp op : {ReduceOp::kAverage, ReduceOp::kAdasum})
    testing::run_ranks(3, [=](Context& context) {
      GivenGradients model(5);
      Sgd optimizer(model.parameters(), {.learning_rate = 0});
      const MeanSquaredError loss;
      TrainStep step(context, model, optimizer, loss, {}, {.op = op});
      for (int number = 0; number < 3; ++number) {
        model.of_weight.assign(5, 0);
        // Orthogonal gradients: Adasum adds them up.
        model.of_weight[static_cast<std::size_t>(context.rank())] = static_cast<float>(number + 1);
        model.of_bias = 2;  // equal gradients: both average
        Batch batch = lines_batch();
        Tensor output(Shape{4, 2});
        // The loss is rank + number.
        for (std::size_t i = 0; i < 8; ++i)
          output.data()[i] =
              batch.targets.data()[i] + std::sqrt(static_cast<float>(context.rank() + number));
        (void)step.forward(batch, {.training = true});
        step.backward(std::move(output), batch, 4);
        step.exchange();
        step.update();
        EXPECT_NEAR(*static_cast<const float*>(step.scalars().data), 1 + number, 1e-5);
        const auto sum = static_cast<float>(number + 1);
        for (std::size_t i = 0; i < 5; ++i)
          EXPECT_EQ(model.weight.gradient.values()[i],
                    i >= 3 ? 0.0f : (op == ReduceOp::kAdasum ? sum : sum / 3));
        EXPECT_EQ(model.bias.gradient.values()[1], 2.0f);
      }
    });
}

// Rows of padding have values that would change every result.
TEST(TrainStep, PaddingAddsNothing) {
  testing::run_ranks(1, [](Context& context) {
    const auto device = std::make_shared<device::HostDevice>();
    const LinesDataset lines(7);
    const MeanSquaredError loss;
    for (device::Device* const where :
         {static_cast<device::Device*>(nullptr), static_cast<device::Device*>(device.get())}) {
      // The gradients and the loss of the first `rows` samples, with `padding` rows after them.
      const auto result_of = [&](std::size_t rows, std::size_t padding) {
        const auto model = make_mlp({.input = {3}, .hidden = {5}, .classes = 2, .seed = 2});
        Sgd optimizer(model->parameters(), {.learning_rate = 1});
        TrainStep step(context, *model, optimizer, loss, {.device = where});
        const Batch all = whole_batch(lines);
        Batch batch = rows_of(all, 0, rows + padding);
        batch.padding = padding;
        std::optional<BatchUpload> upload;
        if (where != nullptr) {
          DeviceBackend& backend = *step.device_backend();
          upload.emplace(*where, backend.allocator());
          batch = upload->upload(std::move(batch), backend.stream());
        }
        step.set_step(0);
        Tensor output = step.forward(batch, {.training = true});
        step.backward(std::move(output), batch, 4);
        step.exchange();
        step.update();
        step.finish();
        std::vector<float> values{static_cast<const StepScalars*>(step.scalars().data)->loss,
                                  static_cast<float>(step.batch_score()->counted)};
        step.move_back();
        for (const Parameter* parameter : model->parameters())
          values.insert(values.end(), parameter->value.values().begin(),
                        parameter->value.values().end());
        return values;
      };
      EXPECT_EQ(result_of(4, 3), result_of(4, 0));
      const std::vector<float> nothing = result_of(0, 7);
      EXPECT_EQ(nothing[0], 0);
      EXPECT_EQ(nothing[1], 0);
      EXPECT_NE(result_of(4, 0), result_of(7, 0));
    }
  });
}

TEST(GradientBlock, OfHostMemoryIsSharedInsideANode) {
  for (const int ranks_per_node : {1, 2, 4})
    testing::run_ranks(4,
                       [=](Context& context) {
                         GivenGradients model(10);
                         Tensor& gradient = model.weight.gradient;
                         gradient.fill(static_cast<float>(context.rank()));
                         const float* before = gradient.data();
                         { GradientBlock block(context, cpu_backend(), model.parameters()); }
                         EXPECT_EQ(gradient.data() != before, ranks_per_node > 1)
                             << "in memory that other ranks have mapped";
                         EXPECT_EQ(gradient.shape(), Shape{10});
                         for (const float value : gradient.values())
                           EXPECT_EQ(value, static_cast<float>(context.rank()));
                       },
                       {.environment = {"HORO_RANKS_PER_NODE=" + std::to_string(ranks_per_node)}});
}

std::string mismatch_of(Context& context, std::size_t size, const Loss& loss) {
  GivenGradients model(size);
  Sgd optimizer(model.parameters(), {});
  try {
    TrainStep step(context, model, optimizer, loss, {});
  } catch (const MismatchError& error) {
    return error.what();
  }
  return "no error";
}

TEST(TrainStep, NamesDifferencesBetweenRanks) {
  testing::run_ranks(2, [](Context& context) {
    const bool is_other = context.rank() == 1;
    EXPECT_THAT(mismatch_of(context, is_other ? 3 : 2, CrossEntropy()), HasSubstr("weight"));
    EXPECT_THAT(mismatch_of(context, 2, CrossEntropy({.label_smoothing = is_other ? 0.1f : 0.0f})),
                HasSubstr("label_smoothing 0.1"));
  });
}

TEST(TrainStep, RejectsOptimizerOfOtherParameters) {
  testing::run_ranks(1, [](Context& context) {
    GivenGradients model(2);
    Sgd optimizer({&model.bias}, {});
    EXPECT_THROW(TrainStep(context, model, optimizer, CrossEntropy(), {}), InvalidArgument);
  });
}

}  // namespace
}  // namespace horo::ops
