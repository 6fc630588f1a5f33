#include "ops/train/step/sync_batch_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "horo/device/host/host_device.h"
#include "horo/testing.h"
#include "ops/backend/device/device_backend.h"
#include "ops/nn/layers/batch_norm.h"
#include "ops/nn/layers/conv2d.h"
#include "ops/nn/layers/relu.h"
#include "ops/nn/models/residual_block.h"
#include "ops/nn/sequential.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {
namespace {

constexpr std::size_t kBatch = 11;
const Shape kImage{kBatch, 3, 5, 6};
const Pass kTraining{.training = true};

// A BatchNorm alone, one with a ReLU after it, and those of a residual block.
std::unique_ptr<Sequential> make_network() {
  auto network = std::make_unique<Sequential>();
  network->add("norm", BatchNorm({.channels = 3}))
      .add("conv", Conv2d({.in_channels = 3, .out_channels = 4, .bias = false}))
      .add("norm2", BatchNorm({.channels = 4}))
      .add("relu", Relu())
      .add("block", ResidualBlock({.in_channels = 4, .out_channels = 5, .stride = 2}));
  std::uint32_t seed = 30;
  for (Parameter* parameter : network->parameters()) {
    const auto more = varied_values(parameter->value.count(), ++seed);
    for (std::size_t i = 0; i < more.size(); ++i) parameter->value.values()[i] += 0.3f * more[i];
  }
  return network;
}

/// Different numbers of rows for each rank: 1 more than a fair share for the last one.
std::pair<std::size_t, std::size_t> rows_of_rank(const Context& context) {
  const auto rank = static_cast<std::size_t>(context.rank());
  const auto ranks = static_cast<std::size_t>(context.size());
  const std::size_t share = kBatch / ranks;
  const std::size_t first = rank * share;
  return {first, rank + 1 == ranks ? kBatch - first : share};
}

Tensor rows_of(const Tensor& all, std::size_t first, std::size_t count) {
  std::vector<std::size_t> dimensions = all.shape().dimensions();
  const std::size_t row = all.count() / dimensions[0];
  dimensions[0] = count;
  const auto values = all.values().subspan(first * row, count * row);
  return tensor_of(Shape(dimensions), {values.begin(), values.end()});
}

struct Results {
  std::vector<float> output, input_gradient, gradients, buffers;
};

/// A training pass over `rows` of the whole batch.
Results pass_of(Sequential& network, std::size_t first, std::size_t count) {
  Backend& backend = network.backend();
  const auto give = [&](const Tensor& values) {
    if (backend.device_stream() == nullptr)
      return backend.in_own_order(values.clone(), backend.type());
    return backend.from_host(values.clone());
  };
  const auto take = [&](const Tensor& values) {
    if (backend.device_stream() == nullptr)
      return values_of(backend.in_host_order(values.shared(), backend.type()));
    return values_of(backend.to_host(values));
  };
  Tensor input = varied_tensor(kImage, 1);
  for (float& value : input.values()) value += 2;
  const Tensor output = network.forward(give(rows_of(input, first, count)), kTraining);
  std::vector<std::size_t> dimensions = output.shape().dimensions();
  dimensions[0] = kBatch;
  const Tensor gradient = varied_tensor(Shape(dimensions), 2);
  Results results{.output = take(output)};
  results.input_gradient = take(network.backward(give(rows_of(gradient, first, count)), {}));
  // Parameters and buffers have the order of the host on the CPU; to_host() converts those of a
  // device.
  const auto append = [&](std::vector<float>& all, const Tensor& tensor) {
    const Tensor host = backend.to_host(tensor);
    all.insert(all.end(), host.values().begin(), host.values().end());
  };
  for (const Parameter* parameter : network.parameters())
    append(results.gradients, parameter->gradient);
  for (const Parameter* buffer : network.buffers()) append(results.buffers, buffer->value);
  return results;
}

void expect_near(std::span<const float> actual, std::span<const float> expected, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], 1e-4 * std::max(1.0f, std::abs(expected[i])))
        << what << " " << i;
}

/// All ranks together have the results of one rank with the whole batch.
void expect_as_one_rank(Context& context, Backend& backend) {
  const auto alone = make_network(), together = make_network();
  const Results expected = pass_of(*alone, 0, kBatch);
  together->move_to(backend);
  synchronise_batch_norm(*together, context);
  const auto [first, count] = rows_of_rank(context);
  Results own = pass_of(*together, first, count);
  const auto part = [&, first = first, count = count](const std::vector<float>& all) {
    const std::size_t row = all.size() / kBatch;
    return std::span(all).subspan(first * row, count * row);
  };
  expect_near(own.output, part(expected.output), "output");
  expect_near(own.input_gradient, part(expected.input_gradient), "gradient by the input");
  expect_near(own.buffers, expected.buffers, "running statistics");
  context.allreduce(TensorView(own.gradients), {.name = "gradients", .op = ReduceOp::kSum});
  expect_near(own.gradients, expected.gradients, "gradients");
  together->move_to(cpu_backend());
}

TEST(SyncBatchNorm, HasTheResultsOfTheWholeBatch) {
  for (const int ranks : {1, 2, 3, 4})
    testing::run_ranks(ranks, [](Context& context) {
      expect_as_one_rank(context, cpu_backend());
      expect_as_one_rank(context, cpu_backend(ImageLayout::kChannelsLast));
    });
}

TEST(SyncBatchNorm, HasTheResultsOfTheWholeBatchOnDevices) {
  for (const int ranks : {1, 3})
    testing::run_ranks(ranks, [](Context& context) {
      const auto device = std::make_shared<device::HostDevice>();
      DeviceBackend backend(*device);
      expect_as_one_rank(context, backend);
    });
}

TEST(SyncBatchNorm, InferenceIsNotCollective) {
  testing::run_ranks(2, [](Context& context) {
    const auto network = make_network();
    synchronise_batch_norm(*network, context);
    if (context.rank() != 0) return;
    EXPECT_EQ(network->forward(varied_tensor(kImage, 1), {}).shape()[0], kBatch);
  });
}

}  // namespace
}  // namespace horo::ops
