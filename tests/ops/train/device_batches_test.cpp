// Batches, parameters and gradients on a device during training.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <memory>

#include "horo/device/host/host_device.h"
#include "horo/testing.h"
#include "ops/backend/device/device_backend.h"
#include "ops/backend/device/update/step_state.h"
#include "ops/optim/adamw.h"
#include "ops/optim/sgd.h"
#include "ops/train/step/batch_upload.h"
#include "ops/train/step/gradient_block.h"
#include "ops/train/step/measured_gradients.h"
#include "ops/train/step/pinned_pool.h"
#include "tests/ops/train/small_task.h"

namespace horo::ops {
namespace {

Batch make_batch(std::size_t rows, int number) {
  Batch batch{.inputs = Tensor(Shape{rows, 3}),
              .targets = Tensor(Shape{rows}, DataType::kInt32),
              .samples = Tensor(Shape{rows}, DataType::kInt64)};
  for (std::size_t i = 0; i < batch.inputs.count(); ++i)
    batch.inputs.values()[i] = static_cast<float>(100 * number) + static_cast<float>(i);
  for (std::size_t row = 0; row < rows; ++row) {
    batch.targets.data<std::int32_t>()[row] = static_cast<std::int32_t>(row) + number;
    batch.samples.data<std::int64_t>()[row] = static_cast<std::int64_t>(1000 * row) + number;
  }
  return batch;
}

/// The same batch in memory of `pool`.
Batch pinned(const Batch& batch, PinnedPool& pool) {
  const auto copy = [&](const Tensor& part) {
    const auto memory = std::make_shared<device::Memory>(pool.allocate(part.bytes()));
    std::copy_n(part.raw(), part.bytes(), memory->data());
    return Tensor(part.shape(), part.type(), memory->data(), memory);
  };
  return {batch.where, copy(batch.inputs), copy(batch.targets), copy(batch.samples), true};
}

class BatchUploadTest : public ::testing::TestWithParam<bool> {};

TEST_P(BatchUploadTest, UploadsEveryPartOfManyBatches) {
  device::HostDevice device({.max_delay = std::chrono::microseconds(100), .seed = 3});
  const auto user = device.make_stream(device::Priority::kNormal);
  device::CachingAllocator allocator(device);
  PinnedPool pool(device);
  BatchUpload upload(device, allocator);
  int checked = 0;
  for (int number = 0; number < 20; ++number) {
    const std::size_t rows = number % 4 == 3 ? 0 : 5 + static_cast<std::size_t>(number % 3);
    Batch source = make_batch(rows, number);
    if (GetParam()) source = pinned(source, pool);
    Batch batch = upload.upload(std::move(source), *user);
    EXPECT_EQ(batch.rows(), rows);
    EXPECT_EQ(batch.inputs.shape(), Shape({rows, 3}));
    device::submit(*user, [&checked, number, rows, inputs = batch.inputs.data(),
                           targets = batch.targets.data<std::int32_t>(),
                           samples = batch.sample_indices().data()] {
      const Batch expected = make_batch(rows, number);
      for (std::size_t i = 0; i < 3 * rows; ++i)
        EXPECT_EQ(inputs[i], expected.inputs.values()[i]) << "batch " << number;
      for (std::size_t row = 0; row < rows; ++row) {
        EXPECT_EQ(targets[row], expected.targets.data<std::int32_t>()[row]);
        EXPECT_EQ(samples[row], expected.sample_indices()[row]);
      }
      ++checked;
    });
  }
  user->synchronize();
  EXPECT_EQ(checked, 20);
  EXPECT_LE(allocator.counters().driver_allocations, 3u);
}

INSTANTIATE_TEST_SUITE_P(OrdinaryAndPinned, BatchUploadTest, ::testing::Bool());

TEST(PinnedPool, ReusesFreedMemoryOfTheSameSize) {
  device::HostDevice device;
  device::Memory kept;
  {
    PinnedPool pool(device);
    device::Memory first = pool.allocate(300);
    std::byte* const place = first.data();
    first = {};
    kept = pool.allocate(300);
    EXPECT_EQ(kept.data(), place);
    EXPECT_EQ(kept.size(), 300u);
    EXPECT_NE(pool.allocate(300).data(), place);
  }
  kept.data()[299] = std::byte{1};  // may outlive the pool
}

TEST(DataLoader, LoadsIntoPinnedMemory) {
  device::HostDevice device;
  PinnedPool pool(device);
  std::atomic<std::size_t> bytes = 0;
  const BarsDataset dataset(24);
  const GlobalSampler sampler({.dataset_size = 24, .global_batch = 8}, 0, 1);
  DataLoader loader(dataset, sampler, 0, 3, {.threads = 2, .allocate_pinned = [&](std::size_t n) {
                                               bytes += n;
                                               return pool.allocate(n);
                                             }});
  DataLoader ordinary(dataset, sampler, 0, 3);
  while (const auto batch = loader.next()) {
    const auto expected = ordinary.next();
    EXPECT_TRUE(batch->is_pinned);
    EXPECT_FALSE(expected->is_pinned);
    EXPECT_TRUE(std::ranges::equal(batch->inputs.values(), expected->inputs.values()));
    EXPECT_TRUE(std::ranges::equal(batch->targets.values<std::int32_t>(),
                                   expected->targets.values<std::int32_t>()));
    EXPECT_TRUE(std::ranges::equal(batch->sample_indices(), expected->sample_indices()));
  }
  EXPECT_EQ(bytes, 24 * (dataset.input().bytes() + sizeof(std::int32_t) + sizeof(std::int64_t)));
}

/// Parameters of float32, or with copies of bfloat16 and gradients of `narrow`. Each value is its
/// index.
struct Parameters {
  explicit Parameters(device::Device& device, DataType narrow = DataType::kBFloat16) {
    const auto tensor = [&](std::size_t count, DataType type) {
      return Tensor(Shape{count}, type, device, device.allocate(count * size_of(type)));
    };
    for (const auto& [name, count, is_narrow] :
         {std::tuple{"a", 10, false}, {"b", 7, true}, {"c", 5, false}, {"d", 16, true}}) {
      const auto elements = static_cast<std::size_t>(count);
      Parameter& one = parameters.emplace_back();
      one.name = name;
      one.value = tensor(elements, DataType::kFloat32);
      if (is_narrow) one.copy = tensor(elements, DataType::kBFloat16);
      one.gradient = tensor(elements, is_narrow ? narrow : DataType::kFloat32);
      for (std::size_t i = 0; i < elements; ++i) one.value.data()[i] = static_cast<float>(i);
    }
    for (Parameter& one : parameters) list.push_back(&one);
  }
  std::vector<Parameter> parameters;
  std::vector<Parameter*> list;
};

// In stream order; the program may read the memory of the stand-in afterwards.
void settle(DeviceBackend& backend) { backend.stream().synchronize(); }

TEST(GradientBlock, OfADeviceIsContiguousByTypeInBackwardOrder) {
  testing::run_ranks(1, [](Context& context) {
    device::HostDevice device;
    DeviceBackend backend(device);
    Parameters parameters(device);
    GradientBlock gradients(context, backend, parameters.list);
    settle(backend);
    const auto tensors = gradients.tensors();
    ASSERT_EQ(tensors.size(), 5u);
    EXPECT_EQ(tensors[4].name, "train.loss");
    EXPECT_EQ(tensors[4].tensor.data(), gradients.scalars().raw());
    const auto end_of = [&](std::size_t i) {
      return static_cast<std::byte*>(tensors[i].tensor.data()) + tensors[i].tensor.bytes();
    };
    EXPECT_EQ(end_of(4), tensors[2].tensor.data());
    EXPECT_EQ(end_of(2), tensors[0].tensor.data());
    EXPECT_EQ(end_of(3), tensors[1].tensor.data());
    for (std::size_t i = 0; i < 4; ++i) {
      const Parameter& parameter = parameters.parameters[i];
      EXPECT_EQ(parameter.gradient.raw(), tensors[i].tensor.data());
      EXPECT_EQ(tensors[i].name, parameter.name);
      EXPECT_EQ(tensors[i].tensor.type(), parameter.gradient.type());
      EXPECT_EQ(tensors[i].tensor.bytes() % GradientBlock::kAlignment, 0u);
      EXPECT_GE(tensors[i].tensor.bytes(), parameter.gradient.bytes());
      EXPECT_EQ(*static_cast<const std::uint16_t*>(tensors[i].tensor.data()), 0);
    }
  });
}

std::vector<GradientLocation> own_gradients(const Parameters& parameters, float scale) {
  std::vector<GradientLocation> own;
  for (const Parameter& one : parameters.parameters)
    own.push_back({one.gradient.raw(), one.gradient.type(), scale});
  return own;
}

TEST(OptimizerOnADevice, UpdatesValuesAndCopies) {
  device::HostDevice device;
  DeviceBackend backend(device);
  Parameters parameters(device);
  const std::vector<GradientLocation> gradients = own_gradients(parameters, 0.5f);
  Sgd sgd(parameters.list, {.learning_rate = 0.5f, .momentum = 0.5f});
  sgd.move_to(backend);
  for (int step = 0; step < 2; ++step) {
    for (Parameter& one : parameters.parameters)
      for (std::size_t i = 0; i < one.gradient.count(); ++i) {
        if (one.gradient.type() == DataType::kFloat32)
          one.gradient.data()[i] = 2;
        else
          one.gradient.data<BFloat16>()[i] = BFloat16(2.0f);
      }
    sgd.step({.locations = gradients});
    backend.stream().synchronize();
  }
  for (const Parameter& one : parameters.parameters)
    for (std::size_t i = 0; i < one.value.count(); ++i) {
      const float expected = static_cast<float>(i) - 0.5f * (1 + 1.5f);
      EXPECT_EQ(one.value.data()[i], expected);
      if (one.copy.count() > 0) {
        EXPECT_EQ(static_cast<float>(one.copy.data<BFloat16>()[i]),
                  static_cast<float>(BFloat16(expected)));
      }
    }
  sgd.move_to(cpu_backend());
}

TEST(OptimizerOnADevice, CapturedStepsFollowTheLearningRateAndTheClock) {
  using device_kernels::StepState;
  const auto device = std::make_shared<device::HostDevice>();
  DeviceBackend backend(*device);
  const device::Memory state = device->allocate(sizeof(StepState));
  auto* const step = reinterpret_cast<StepState*>(state.data());
  // The values after three steps with falling rates.
  const auto values = [&](auto make_optimizer, bool is_captured) {
    Parameters parameters(*device);
    for (Parameter& one : parameters.parameters)
      for (std::size_t i = 0; i < one.gradient.bytes(); ++i)
        one.gradient.raw()[i] = std::byte{0x3f};
    const std::unique_ptr<Optimizer> optimizer = make_optimizer(parameters.list);
    optimizer->move_to(backend);
    const auto update = [&] { optimizer->step({.learning_rate = &step->learning_rate}); };
    std::unique_ptr<device::Graph> graph;
    if (is_captured) graph = device->capture(backend.stream(), update);
    for (std::uint64_t number = 0; number < 3; ++number) {
      device_kernels::set_step(backend.stream(), step,
                               {number, 0.5f / (1 + static_cast<float>(number))});
      if (is_captured)
        graph->launch(backend.stream());
      else
        update();
    }
    backend.stream().synchronize();
    graph.reset();
    optimizer->move_to(cpu_backend());
    std::vector<float> all;
    for (const Parameter& one : parameters.parameters)
      all.insert(all.end(), one.value.data(), one.value.data() + one.value.count());
    return all;
  };
  const auto sgd = [](const std::vector<Parameter*>& parameters) {
    return std::make_unique<Sgd>(parameters, SgdOptions{.momentum = 0.5f});
  };
  const auto adamw = [](const std::vector<Parameter*>& parameters) {
    return std::make_unique<AdamW>(parameters, AdamWOptions{});
  };
  EXPECT_EQ(values(sgd, true), values(sgd, false));
  EXPECT_EQ(values(adamw, true), values(adamw, false));
}

using MakeOptimizer =
    std::function<std::unique_ptr<Optimizer>(const std::vector<Parameter*>& parameters)>;

// The values after some steps with wire type `wire` and with clipping.
std::vector<float> values_after_steps(Context& context, const MakeOptimizer& make, DataType wire,
                                      bool leave_as_reduced) {
  const auto owner = std::make_shared<device::HostDevice>(
      device::HostDevice::Options{.max_delay = std::chrono::microseconds(20)});
  device::HostDevice& device = *owner;
  DeviceBackend backend(device);
  device::Stream* const stream = &backend.stream();
  Parameters parameters(device, DataType::kFloat32);
  const GradientBlock gradients(context, backend, parameters.list);
  settle(backend);
  GradientSync sync(context, gradients.tensors(),
                    {.wire = wire,
                     .metrics = {GradientBlock::kScalarsName},
                     .leave_as_reduced = leave_as_reduced});
  std::vector<ReducedGradient> reduced;
  for (std::size_t i = 0; i < gradients.tensors().size(); ++i) reduced.push_back(sync.reduced(i));
  EXPECT_EQ(reduced[0].type, leave_as_reduced && context.size() > 1 ? wire : DataType::kFloat32);
  EXPECT_EQ(reduced.back().type, DataType::kFloat32);
  std::vector<GradientLocation> locations;
  for (std::size_t i = 0; i < parameters.list.size(); ++i)
    locations.push_back({reduced[i].data, reduced[i].type, static_cast<float>(reduced[i].scale)});
  const std::unique_ptr<Optimizer> optimizer = make(parameters.list);
  optimizer->move_to(backend);
  MeasuredGradients measured(device, *stream, parameters.list, reduced);
  for (int step = 0; step < 5; ++step) {
    for (std::size_t t = parameters.list.size() + 1; t-- > 0;) {
      device::submit(*stream, [&, t, step] {
        auto* values = static_cast<float*>(gradients.tensors()[t].tensor.data());
        for (std::size_t i = 0; i < gradients.tensors()[t].tensor.count(); ++i)
          values[i] = std::sin(static_cast<float>(i + 7 * t) + 0.3f * static_cast<float>(step) +
                               static_cast<float>(context.rank()));
      });
      sync.ready(t, stream->native());
    }
    sync.wait_on(stream->native());
    measured.measure(*stream, {.max_norm = 2});
    optimizer->step({.locations = locations, .factor = &measured.verdict()->factor});
  }
  stream->synchronize();
  EXPECT_LT(measured.verdict()->factor, 1);
  std::vector<float> values;
  for (const Parameter& one : parameters.parameters)
    for (std::size_t i = 0; i < one.value.count(); ++i) values.push_back(one.value.data()[i]);
  return values;
}

TEST(OptimizerOnADevice, HasTheSameBitsForPackedAndUnpackedGradients) {
  const MakeOptimizer optimizers[] = {
      [](const auto& parameters) {
        return std::make_unique<Sgd>(
            parameters, SgdOptions{.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f});
      },
      [](const auto& parameters) {
        return std::make_unique<AdamW>(parameters, AdamWOptions{.learning_rate = 0.1f});
      }};
  for (const int ranks : {1, 2, 3})
    testing::run_ranks(ranks, [&](Context& context) {
      for (const MakeOptimizer& make : optimizers)
        for (const DataType wire : {DataType::kBFloat16, DataType::kFloat16})
          EXPECT_EQ(values_after_steps(context, make, wire, true),
                    values_after_steps(context, make, wire, false));
    });
}

}  // namespace
}  // namespace horo::ops
