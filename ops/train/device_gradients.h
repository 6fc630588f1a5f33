#pragma once

#include <memory>
#include <span>
#include <vector>

#include "horo/device/device.h"
#include "horo/gradient_sync.h"
#include "horo/horo.h"
#include "ops/backend/device/gradient_norm.h"
#include "ops/nn/layer.h"

namespace horo::ops {

/// Measures the reduced gradients of a network: their norm, and whether they are finite. Used from
/// one thread.
class MeasuredGradients {
 public:
  /// gradients[i] is the location of the reduced gradient of parameters[i]. It must not move.
  MeasuredGradients(device::Device& device, device::Stream& stream,
                    const std::vector<Parameter*>& parameters,
                    std::span<const ReducedGradient> gradients);

  /// Submits the measurement to `stream`; see measure_gradients().
  void measure(device::Stream& stream, const device_kernels::GradientMeasure& how);
  /// The result of the latest measure(), in device memory; zeros before the first one.
  const device_kernels::GradientVerdict* verdict() const;

 private:
  struct Group {
    DataType type;
    float scale;
    std::vector<device_kernels::GradientTensor> tensors;
  };

  std::vector<Group> groups_;
  device::Memory partial_sums_, verdict_;
};

/// One block of device memory with the gradients of a network and the loss. Gradients of one type
/// are contiguous, in the order in which backward computes them, so that every bucket is one range.
/// Each gradient starts at a multiple of kAlignment bytes. The padding is zero and is exchanged
/// too.
class DeviceGradients {
 public:
  static constexpr std::size_t kAlignment = 16;
  static constexpr const char* kLossName = "train.loss";

  /// Points the gradient of every parameter into the block. The parameters must outlive this
  /// object. `stream` clears the memory.
  DeviceGradients(device::Device& device, device::Stream& stream,
                  const std::vector<Parameter*>& parameters);

  /// The tensors for a GradientSync: one per parameter, in order, then the loss.
  std::span<const NamedTensor> tensors() const { return tensors_; }
  /// Where this rank writes its loss.
  float* loss() const { return loss_; }

 private:
  std::shared_ptr<device::Memory> memory_;
  std::vector<NamedTensor> tensors_;
  float* loss_ = nullptr;
};

}  // namespace horo::ops
