#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "horo/device/host/host_device.h"
#include "horo/horo.h"

namespace horo {

inline constexpr std::size_t kSizes[] = {5003, 1, 0, 129, 8193, 20000, 64};
inline const GradientSyncOptions kSeveralBuckets{
    .op = ReduceOp::kSum, .bucket_bytes = 40000, .chunk_bytes = 30000};

/// A rank's device and a model in its memory.
class DeviceModel {
 public:
  explicit DeviceModel(Context& ctx, std::uint64_t seed = 1)
      : rank_(ctx.rank()),
        device_(std::make_shared<device::HostDevice>(
            device::HostDevice::Options{.max_delay = std::chrono::microseconds(100),
                                        .seed = seed * 100 + static_cast<std::uint64_t>(rank_)})) {
    for (const std::size_t size : kSizes) {
      memory_.push_back(device_->allocate(size * sizeof(float)));
      gradients_.push_back(
          {"layer" + std::to_string(gradients_.size()),
           TensorView(reinterpret_cast<float*>(memory_.back().data()), Shape{size}, *device_)});
    }
  }
  device::HostDevice& device() { return *device_; }
  const std::vector<NamedTensor>& gradients() const { return gradients_; }
  std::unique_ptr<device::Stream> stream() {
    return device_->make_stream(device::Priority::kNormal);
  }

  /// Runs on the stream, like a kernel of backward.
  void compute(device::Stream& stream, std::size_t t, int step) const {
    device::submit(stream, [this, t, step] {
      for (std::size_t i = 0; i < kSizes[t]; ++i) data(t)[i] = value(rank_, step, t, i);
    });
  }
  /// The same for the value of `step` when the device runs this work.
  void compute(device::Stream& stream, std::size_t t, const int* step) const {
    device::submit(stream, [this, t, step] {
      for (std::size_t i = 0; i < kSizes[t]; ++i) data(t)[i] = value(rank_, *step, t, i);
    });
  }
  /// Checks on the stream, like the optimizer's kernel, that every value is the sum times `factor`.
  void expect_sums(device::Stream& stream, int ranks, int step, float factor = 1) const {
    device::submit(stream, [this, ranks, step, factor] { expect_sums_now(ranks, step, factor); });
  }
  void expect_sums(device::Stream& stream, int ranks, const int* step) const {
    device::submit(stream, [this, ranks, step] { expect_sums_now(ranks, *step); });
  }
  void expect_sums_now(int ranks, int step, float factor = 1) const {
    for (std::size_t t = 0; t < gradients_.size(); ++t)
      for (std::size_t i = 0; i < kSizes[t]; ++i) {
        float sum = 0;
        for (int r = 0; r < ranks; ++r) sum += value(r, step, t, i);
        ASSERT_EQ(data(t)[i], sum * factor) << "tensor " << t << " index " << i << " step " << step;
      }
  }

 private:
  float* data(std::size_t t) const { return static_cast<float*>(gradients_[t].tensor.data()); }
  // Whole numbers whose sums are exact in bfloat16 too.
  static float value(int rank, int step, std::size_t t, std::size_t i) {
    return static_cast<float>((static_cast<std::size_t>(rank * 3 + step) + t + i) % 16);
  }

  int rank_;
  std::shared_ptr<device::HostDevice> device_;
  std::vector<device::Memory> memory_;
  std::vector<NamedTensor> gradients_;
};

/// A step's gradients, the last layer's first.
inline void backward(DeviceModel& model, GradientSync& sync, device::Stream& stream, int step) {
  for (std::size_t t = std::size(kSizes); t-- > 0;) {
    model.compute(stream, t, step);
    sync.ready(t, stream.native());
  }
}

}  // namespace horo
