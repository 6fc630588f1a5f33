#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "horo/base/float16.h"
#include "ops/backend/device/device_backend.h"
#include "ops/nn/layer.h"
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

/// `value` rounded to a floating-point type.
inline float rounded_to(DataType type, float value) {
  if (type == DataType::kFloat16) return static_cast<float>(Float16(value));
  return type == DataType::kBFloat16 ? static_cast<float>(BFloat16(value)) : value;
}

/// A device with its DeviceBackend, and copies to and from it.
class DeviceSide {
 public:
  explicit DeviceSide(DataType type) : backend_(*device_, type) {}
  DeviceBackend& backend() { return backend_; }

  /// Values in host order.
  Tensor upload(const Tensor& values, DataType type = DataType::kFloat32) {
    Tensor tensor = backend_.allocate(values.shape(), type);
    backend_.transfer().upload(values, tensor, backend_.stream());
    return tensor;
  }
  /// Values as layers get them; tokens stay int32.
  Tensor give(const Tensor& values) {
    if (values.type() == DataType::kInt32) return give_tokens(values);
    return backend_.in_own_order(upload(values), backend_.type());
  }
  /// The values of a tensor of a layer, in host order.
  std::vector<float> download(const Tensor& tensor) { return values_of(backend_.to_host(tensor)); }
  /// Valid until the next call.
  std::span<const std::uint64_t> give_samples(const std::vector<std::uint64_t>& samples) {
    backend_.stream().synchronize();
    samples_.emplace(*device_, backend_.stream(), samples);
    return {samples_->data(), samples.size()};
  }

 private:
  Tensor give_tokens(const Tensor& tokens) {
    Tensor result = backend_.allocate(tokens.shape(), tokens.type());
    backend_.stream().copy(result.raw(), tokens.raw(), tokens.bytes());
    backend_.stream().synchronize();
    return result;
  }

  std::unique_ptr<device::Device> device_ = device::make_device();
  DeviceBackend backend_;
  std::optional<device::DeviceArray<std::uint64_t>> samples_;
};

/// Of relative_error().
struct Tolerance {
  double values;  ///< outputs and running statistics
  double gradients;
};

using MakeModel = std::function<std::unique_ptr<Layer>()>;

/// A model on the host and the same one on the device. Runs both and compares the results.
class NetworkPair {
 public:
  NetworkPair(const MakeModel& make, DataType type) : side_(type), host_(varied(make)) {
    network_ = varied(make);
    network_->move_to(side_.backend());
  }
  /// Brings the parameters back from a device whose streams still exist.
  ~NetworkPair() { network_->move_to(cpu_backend()); }
  DeviceSide& side() { return side_; }
  Layer& network() { return *network_; }

  /// A training step on an input of that shape.
  void expect_same_step(const Shape& input, std::uint32_t seed, const Tolerance& tolerance) {
    expect_same_step(varied_tensor(input, seed), seed, tolerance);
  }
  void expect_same_step(const Tensor& values, std::uint32_t seed, const Tolerance& tolerance) {
    const auto samples = sample_indices(values.shape()[0], 100 + seed);
    const Pass pass{.training = true, .seed = 9, .step = seed, .samples = samples};
    const Pass device_pass{
        .training = true, .seed = 9, .step = seed, .samples = side_.give_samples(samples)};
    const Tensor expected = host_->forward(values.clone(), pass);
    const Tensor actual = network_->forward(side_.give(values), device_pass);
    EXPECT_EQ(actual.type(), side_.backend().type());
    ASSERT_EQ(actual.shape(), expected.shape());
    EXPECT_LE(relative_error(side_.download(actual), expected.values()), tolerance.values)
        << "output";

    const Tensor gradient = varied_tensor(expected.shape(), seed + 1);
    std::vector<std::string> expected_ready, ready;
    const Tensor back = host_->backward(
        gradient.clone(), [&](const Parameter& p) { expected_ready.push_back(p.name); });
    const Tensor device_back = network_->backward(
        side_.give(gradient), [&](const Parameter& p) { ready.push_back(p.name); });
    EXPECT_EQ(ready, expected_ready);
    ASSERT_EQ(device_back.shape(), back.shape());
    if (back.count() > 0) {
      EXPECT_EQ(device_back.type(), side_.backend().type());
      EXPECT_LE(relative_error(side_.download(device_back), back.values()), tolerance.gradients)
          << "input";
    }
    expect_same_gradients(tolerance);
    expect_same_buffers(tolerance);
  }

  void expect_same_inference(const Shape& input, std::uint32_t seed, const Tolerance& tolerance) {
    expect_same_inference(varied_tensor(input, seed), tolerance);
  }
  void expect_same_inference(const Tensor& values, const Tolerance& tolerance) {
    const Tensor expected = host_->forward(values.clone(), {});
    const Tensor actual = network_->forward(side_.give(values), {});
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
      EXPECT_LE(relative_error(side_.download(actual[i]->gradient), expected[i]->gradient.values()),
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

  static std::unique_ptr<Layer> varied(const MakeModel& make) {
    std::unique_ptr<Layer> model = make();
    std::uint32_t seed = 70;
    for (Parameter* parameter : model->parameters())
      if (parameter->value.shape().rank() == 1)  // parameters that are initialised to 0 or 1
        for (float& value : parameter->value.values())
          value += 0.2f * varied_values(1, ++seed).front();
    return model;
  }

  DeviceSide side_;
  std::unique_ptr<Layer> host_;
  std::unique_ptr<Layer> network_;
};

}  // namespace horo::ops
