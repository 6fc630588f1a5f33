#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ops/nn/device/to_device.h"
#include "ops/tensor/tensor_transfer.h"
#include "tests/ops/support/test_tensors.h"
#include "tests/support/device_array.h"
#include "tests/support/device_under_test.h"

namespace horo::ops {

/// |actual - expected| / |expected|, Euclidean.
inline double relative_error(std::span<const float> actual, std::span<const float> expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = static_cast<double>(actual[i]) - static_cast<double>(expected[i]);
    error += difference * difference;
    norm += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  EXPECT_GT(norm, 0.0);
  return std::sqrt(error / norm);
}

/// The values of a filter [out, height, width, in] as [out, in, height, width].
inline std::vector<float> channels_first(const Shape& shape, const std::vector<float>& values) {
  const std::size_t pixels = shape[1] * shape[2], channels = shape[3];
  std::vector<float> result(values.size());
  for (std::size_t o = 0; o < shape[0]; ++o)
    for (std::size_t p = 0; p < pixels; ++p)
      for (std::size_t c = 0; c < channels; ++c)
        result[(o * channels + c) * pixels + p] = values[(o * pixels + p) * channels + c];
  return result;
}

/// A device with its DeviceCompute, and copies to and from it.
class DeviceSide {
 public:
  explicit DeviceSide(DataType type) : compute_(*device_, type) {}
  DeviceCompute& compute() { return compute_; }

  Tensor upload(const Tensor& values, DataType type = DataType::kFloat32) {
    Tensor tensor = compute_.allocate(values.shape(), type);
    transfer_.upload(values, tensor, compute_.stream());
    return tensor;
  }
  std::vector<float> download(const Tensor& tensor) {
    Tensor values(tensor.shape());
    transfer_.download(tensor, values, compute_.stream());
    return values_of(values);
  }
  /// A parameter's gradient in the layout of the host.
  std::vector<float> gradient_of(const DeviceParameter& parameter) {
    const auto values = download(parameter.gradient);
    return parameter.is_channels_last ? channels_first(parameter.gradient.shape(), values) : values;
  }
  /// Valid until the next call.
  const std::uint64_t* give_samples(const std::vector<std::uint64_t>& samples) {
    compute_.stream().synchronize();
    samples_.emplace(*device_, compute_.stream(), samples);
    return samples_->data();
  }

 private:
  std::unique_ptr<device::Device> device_ = device::make_device();
  DeviceCompute compute_;
  TensorTransfer transfer_{*device_};
  std::optional<device::DeviceArray<std::uint64_t>> samples_;
};

/// Of relative_error().
struct Tolerance {
  double values;  ///< outputs and running statistics
  double gradients;
};

/// A network on the host and its counterpart on the device. Runs both and compares the results.
class NetworkPair {
 public:
  NetworkPair(std::unique_ptr<Layer> host, DataType type) : side_(type), host_(std::move(host)) {
    std::uint32_t seed = 70;
    for (Parameter* parameter : host_->parameters())
      if (parameter->value.shape().rank() == 1)  // parameters that are initialised to 0 or 1
        for (float& value : parameter->value.values())
          value += 0.2f * varied_values(1, ++seed).front();
    network_ = to_device(*host_, side_.compute());
  }
  DeviceSide& side() { return side_; }
  Layer& host() { return *host_; }
  DeviceLayer& network() { return *network_; }

  /// A training step on an input of that shape.
  void expect_same_step(const Shape& input, std::uint32_t seed, const Tolerance& tolerance) {
    const Tensor values = varied_tensor(input, seed);
    const auto samples = sample_indices(input[0], 100 + seed);
    const Pass pass{.training = true, .seed = 9, .step = seed, .samples = samples};
    const DevicePass device_pass{
        .training = true, .seed = 9, .step = seed, .samples = side_.give_samples(samples)};
    const Tensor expected = host_->forward(values.clone(), pass);
    const Tensor actual = network_->forward(side_.upload(values), device_pass);
    EXPECT_EQ(actual.type(), side_.compute().type());
    ASSERT_EQ(actual.shape(), expected.shape());
    EXPECT_LE(relative_error(side_.download(actual), expected.values()), tolerance.values)
        << "output";

    const Tensor gradient = varied_tensor(expected.shape(), seed + 1);
    std::vector<std::string> expected_ready, ready;
    const Tensor back = host_->backward(
        gradient.clone(), [&](const Parameter& p) { expected_ready.push_back(p.name); });
    const Tensor device_back =
        network_->backward(side_.upload(gradient, side_.compute().type()),
                           [&](const DeviceParameter& p) { ready.push_back(p.name); });
    EXPECT_EQ(ready, expected_ready);
    ASSERT_EQ(device_back.shape(), back.shape());
    if (back.count() > 0) {
      EXPECT_EQ(device_back.type(), DataType::kFloat32);
      EXPECT_LE(relative_error(side_.download(device_back), back.values()), tolerance.gradients)
          << "input";
    }
    expect_same_gradients(tolerance);
    expect_same_buffers(tolerance);
  }

  void expect_same_inference(const Shape& input, std::uint32_t seed, const Tolerance& tolerance) {
    const Tensor values = varied_tensor(input, seed);
    const Tensor expected = host_->forward(values.clone(), {});
    const Tensor actual = network_->forward(side_.upload(values), {});
    EXPECT_LE(relative_error(side_.download(actual), expected.values()), tolerance.values)
        << "inference";
  }

 private:
  void expect_same_gradients(const Tolerance& tolerance) {
    const auto expected = host_->parameters();
    const auto actual = network_->parameters();
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(actual[i]->name, expected[i]->name);
      EXPECT_LE(relative_error(side_.gradient_of(*actual[i]), expected[i]->gradient.values()),
                tolerance.gradients)
          << expected[i]->name;
    }
  }
  void expect_same_buffers(const Tolerance& tolerance) {
    const auto expected = host_->buffers();
    const auto actual = network_->buffers();
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(actual[i]->name, expected[i]->name);
      EXPECT_LE(relative_error(side_.download(actual[i]->value), expected[i]->value.values()),
                tolerance.values)
          << expected[i]->name;
    }
  }

  DeviceSide side_;
  std::unique_ptr<Layer> host_;
  std::unique_ptr<DeviceLayer> network_;
};

}  // namespace horo::ops
