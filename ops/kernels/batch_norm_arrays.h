#pragma once

namespace horo::ops {

// What a batch normalisation on a device reads and writes, all in the device's memory: images as
// their format says, the rest float32 [channels].

struct BatchNormTraining {
  const void* input;
  const float* scale;
  const float* shift;
  void* output;
  /// new = (1 - momentum) * old + momentum * that of the batch, the variance unbiased.
  float* running_mean;
  float* running_variance;
  double momentum;
  /// Of the batch, for the backward pass: the mean, and 1 / sqrt(variance + epsilon).
  float* mean;
  float* inverse_deviation;
};

struct BatchNormInference {
  const void* input;
  const float* scale;
  const float* shift;
  const float* mean;
  const float* variance;
  void* output;
};

struct BatchNormBackward {
  const void* input;
  const void* output_gradient;
  const float* scale;
  const float* mean;
  const float* inverse_deviation;
  void* input_gradient;
  float* scale_gradient;
  float* shift_gradient;
};

}  // namespace horo::ops
