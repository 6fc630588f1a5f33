// What goes to a device and lies there in training.
#include <gtest/gtest.h>

#include "horo/base/device/host_device.h"
#include "ops/train/batch_upload.h"
#include "ops/train/device_gradients.h"
#include "ops/train/device_sgd.h"

namespace horo::ops {
namespace {

Batch make_batch(std::size_t rows, int number) {
  Batch batch{.inputs = Tensor(Shape{rows, 3})};
  for (std::size_t i = 0; i < batch.inputs.count(); ++i)
    batch.inputs.values()[i] = static_cast<float>(100 * number) + static_cast<float>(i);
  for (std::size_t row = 0; row < rows; ++row) {
    batch.labels.push_back(static_cast<std::int32_t>(row) + number);
    batch.samples.push_back(1000 * row + static_cast<std::size_t>(number));
  }
  return batch;
}

TEST(BatchUpload, BringsEveryPartOfManyBatches) {
  device::HostDevice device({.max_delay = std::chrono::microseconds(100), .seed = 3});
  const auto user = device.make_stream(device::Priority::kNormal);
  device::CachingAllocator allocator(device);
  BatchUpload upload(device, allocator);
  int checked = 0;
  for (int number = 0; number < 20; ++number) {
    const std::size_t rows = number % 4 == 3 ? 0 : 5 + static_cast<std::size_t>(number % 3);
    DeviceBatch batch = upload.upload(make_batch(rows, number), *user);
    EXPECT_EQ(batch.rows, rows);
    EXPECT_EQ(batch.inputs.shape(), Shape({rows, 3}));
    device::submit(*user, [&checked, number, rows, inputs = batch.inputs.data(),
                           labels = batch.labels, samples = batch.samples] {
      const Batch expected = make_batch(rows, number);
      const auto* values = reinterpret_cast<const float*>(inputs);
      for (std::size_t i = 0; i < 3 * rows; ++i)
        EXPECT_EQ(values[i], expected.inputs.values()[i]) << "batch " << number;
      for (std::size_t row = 0; row < rows; ++row) {
        EXPECT_EQ(labels[row], expected.labels[row]);
        EXPECT_EQ(samples[row], expected.samples[row]);
      }
      ++checked;
    });
  }
  user->synchronize();
  EXPECT_EQ(checked, 20);
  EXPECT_LE(allocator.counters().driver_allocations, 3u);
}

/// Parameters of float32, or with copies and gradients of bfloat16, whose values are their number.
struct Parameters {
  explicit Parameters(device::Device& device) {
    const auto tensor = [&](std::size_t count, DataType type) {
      return DeviceTensor(Shape{count}, type, device.allocate(count * size_of(type)));
    };
    for (const auto& [name, count, is_narrow] :
         {std::tuple{"a", 10, false}, {"b", 7, true}, {"c", 5, false}, {"d", 16, true}}) {
      const auto elements = static_cast<std::size_t>(count);
      const DataType type = is_narrow ? DataType::kBFloat16 : DataType::kFloat32;
      DeviceParameter& one = parameters.emplace_back();
      one.name = name;
      one.value = tensor(elements, DataType::kFloat32);
      if (is_narrow) one.copy = tensor(elements, type);
      one.gradient = tensor(elements, type);
      for (std::size_t i = 0; i < elements; ++i)
        reinterpret_cast<float*>(one.value.data())[i] = static_cast<float>(i);
    }
    for (DeviceParameter& one : parameters) list.push_back(&one);
  }
  std::vector<DeviceParameter> parameters;
  std::vector<DeviceParameter*> list;
};

TEST(DeviceGradients, OfATypeLieOneBehindTheOtherInTheOrderOfBackward) {
  device::HostDevice device;
  const auto stream = device.make_stream(device::Priority::kNormal);
  Parameters parameters(device);
  const DeviceGradients gradients(device, *stream, parameters.list);
  stream->synchronize();
  const auto tensors = gradients.tensors();
  ASSERT_EQ(tensors.size(), 5u);
  EXPECT_EQ(tensors[4].name, "train.loss");
  EXPECT_EQ(tensors[4].tensor.data(), gradients.loss());
  const auto end_of = [&](std::size_t i) {
    return static_cast<std::byte*>(tensors[i].tensor.data()) + tensors[i].tensor.bytes();
  };
  EXPECT_EQ(end_of(4), tensors[2].tensor.data());
  EXPECT_EQ(end_of(2), tensors[0].tensor.data());
  EXPECT_EQ(end_of(3), tensors[1].tensor.data());
  for (std::size_t i = 0; i < 4; ++i) {
    const DeviceParameter& parameter = parameters.parameters[i];
    EXPECT_EQ(parameter.gradient.data(), tensors[i].tensor.data());
    EXPECT_EQ(tensors[i].name, parameter.name);
    EXPECT_EQ(tensors[i].tensor.type(), parameter.gradient.type());
    EXPECT_EQ(tensors[i].tensor.bytes() % 16, 0u);
    EXPECT_GE(tensors[i].tensor.bytes(), parameter.gradient.bytes());
    EXPECT_EQ(*static_cast<const std::uint16_t*>(tensors[i].tensor.data()), 0);
  }
}

TEST(DeviceSgd, UpdatesValuesAndTheirCopies) {
  device::HostDevice device;
  const auto stream = device.make_stream(device::Priority::kNormal);
  Parameters parameters(device);
  DeviceSgd sgd(device, *stream, parameters.list, {.learning_rate = 0.5f, .momentum = 0.5f});
  for (int step = 0; step < 2; ++step) {
    for (DeviceParameter& one : parameters.parameters)
      for (std::size_t i = 0; i < one.gradient.count(); ++i) {
        if (one.gradient.type() == DataType::kFloat32)
          reinterpret_cast<float*>(one.gradient.data())[i] = 1;
        else
          reinterpret_cast<BFloat16*>(one.gradient.data())[i] = BFloat16(1.0f);
      }
    sgd.step(*stream);
    stream->synchronize();
  }
  for (const DeviceParameter& one : parameters.parameters)
    for (std::size_t i = 0; i < one.value.count(); ++i) {
      const float expected = static_cast<float>(i) - 0.5f * (1 + 1.5f);
      EXPECT_EQ(reinterpret_cast<const float*>(one.value.data())[i], expected);
      if (one.copy.count() > 0) {
        EXPECT_EQ(static_cast<float>(reinterpret_cast<const BFloat16*>(one.copy.data())[i]),
                  static_cast<float>(BFloat16(expected)));
      }
    }
}

}  // namespace
}  // namespace horo::ops
