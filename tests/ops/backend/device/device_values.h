#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "horo/device/host/host_device.h"
#include "tests/ops/support/test_values.h"

namespace horo::ops {

/// The stand-in and one of its streams.
struct TestDevice {
  device::HostDevice device;
  std::unique_ptr<device::Stream> stream = device.make_stream(device::Priority::kNormal);
};

/// Values of T, `skip` elements after a multiple of 256 bytes, between guard values.
template <typename T>
class DeviceValues {
 public:
  DeviceValues(device::Device& device, const std::vector<float>& values, std::size_t skip = 0)
      : memory_(device.allocate((values.size() + skip + kGuards) * sizeof(T))),
        all_(reinterpret_cast<T*>(memory_.data()), values.size() + skip + kGuards),
        skip_(skip),
        count_(values.size()) {
    for (T& value : all_) value = static_cast<T>(kGuard);
    for (std::size_t i = 0; i < count_; ++i) data()[i] = static_cast<T>(values[i]);
  }
  T* data() { return all_.data() + skip_; }
  std::size_t count() const { return count_; }
  std::vector<float> values() {
    std::vector<float> values;
    for (std::size_t i = 0; i < count_; ++i) values.push_back(static_cast<float>(data()[i]));
    return values;
  }
  void expect_guards() {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (i >= skip_ && i < skip_ + count_) continue;
      EXPECT_EQ(static_cast<float>(all_[i]), kGuard) << "outside, at " << i;
    }
  }

 private:
  static constexpr std::size_t kGuards = 9;
  static constexpr float kGuard = 77;
  device::Memory memory_;
  std::span<T> all_;
  std::size_t skip_, count_;
};

/// The values rounded to T.
template <typename T>
std::vector<float> rounded(std::vector<float> values) {
  for (float& value : values) value = static_cast<float>(static_cast<T>(value));
  return values;
}

}  // namespace horo::ops
