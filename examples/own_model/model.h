#pragma once

#include <cstddef>
#include <cstdint>

#include "horo/device/stream.h"

// The arithmetic of a model with two layers, y = w2 . tanh(w1 x + b1) + b2, which learns
// y = sin(3 a) * b. Each function computes on `stream`, or in the calling thread if `stream` is
// null. Arrays are in the memory of the stream's device.

constexpr unsigned kInputs = 2;
constexpr unsigned kHidden = 64;
constexpr std::size_t kParameters = kHidden * (kInputs + 2) + 1;

/// The parameters of the model, or their gradients.
struct Layers {
  float* w1;  ///< kHidden x kInputs
  float* b1;  ///< kHidden
  float* w2;  ///< kHidden
  float* b2;  ///< 1

  /// Divides a block of kParameters values.
  explicit Layers(float* block)
      : w1(block), b1(w1 + kHidden * kInputs), w2(b1 + kHidden), b2(w2 + kHidden) {}
};

/// The samples of a rank in a step, and what forward computes for backward.
struct Batch {
  std::uint64_t first;  ///< the global index of the first sample
  unsigned count;
  float* inputs;  ///< count x kInputs
  float* hidden;  ///< count x kHidden
  float* errors;  ///< count
};

/// Sets `count` parameters to random values that depend on `seed`.
void initialize(horo::device::Stream* stream, float* parameters, std::size_t count,
                std::uint64_t seed);
/// Computes the mean gradient of the batch and its mean squared error `loss` (1).
void forward_backward(horo::device::Stream* stream, const Layers& model, const Batch& batch,
                      const Layers& gradient, float* loss);
/// Subtracts the gradients times `rate`.
void update(horo::device::Stream* stream, float* parameters, const float* gradients,
            std::size_t count, float rate);
