#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "horo/device/host/host_device.h"
#include "horo/horo.h"
#include "tests/support/device_array.h"

namespace horo::device_operations_test {

using device::DeviceArray;
using device::HostDevice;
using device::Priority;
using device::Stream;

inline float value(int rank, std::size_t t, std::size_t i) {
  return static_cast<float>((static_cast<std::size_t>(rank * 3) + t + i) % 8);
}

/// A rank's device, a stream of its program, and tensors of floats that the stream computes.
class Rank {
 public:
  explicit Rank(Context& ctx, std::uint64_t seed = 1)
      : rank_(ctx.rank()),
        device_(std::make_shared<HostDevice>(
            HostDevice::Options{.max_delay = std::chrono::microseconds(100),
                                .seed = seed * 100 + static_cast<std::uint64_t>(rank_)})),
        stream_(device_->make_stream(Priority::kNormal)) {}
  ~Rank() {
    try {
      stream_->synchronize();
    } catch (const DeviceError&) {
    }
  }

  HostDevice& device() { return *device_; }
  Stream& stream() { return *stream_; }
  void* native() { return stream_->native(); }

  /// Contains value(rank, t, i) after the stream has completed the work. Lives as long as this.
  const DeviceArray<float>& tensor(std::size_t t, std::size_t count) {
    const DeviceArray<float>& array = arrays_.emplace_back(*device_, count);
    make(array, t);
    return array;
  }
  void make(const DeviceArray<float>& array, std::size_t t) {
    device::submit(*stream_, [data = array.data(), n = array.size(), rank = rank_, t] {
      for (std::size_t i = 0; i < n; ++i) data[i] = value(rank, t, i);
    });
  }
  /// Checked by the stream, like a kernel of the program.
  void expect(const DeviceArray<float>& array, std::function<float(std::size_t)> expected) {
    device::submit(*stream_, [data = array.data(), n = array.size(), expected] {
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(data[i], expected(i)) << "index " << i;
    });
  }

 private:
  int rank_;
  std::shared_ptr<HostDevice> device_;
  std::deque<DeviceArray<float>> arrays_;
  std::unique_ptr<Stream> stream_;
};

inline TensorView view(const DeviceArray<float>& array) { return array.view(); }
inline TensorView rows(const DeviceArray<float>& array, std::size_t width) {
  return array.view(Shape{array.size() / width, width});
}

inline float sum_of(int ranks, std::size_t t, std::size_t i) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r) sum += value(r, t, i);
  return sum;
}

}  // namespace horo::device_operations_test
