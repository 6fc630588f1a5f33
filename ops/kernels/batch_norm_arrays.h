#pragma once

namespace horo::ops {

// The arrays of a batch normalisation on a device, all in device memory. Images have their own
// format; all other arrays are float32 [channels].

struct BatchNormTraining {
  const void* input;
  const float* scale;
  const float* shift;
  void* output;
  /// new = (1 - momentum) * old + momentum * value of the batch, with the unbiased variance.
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
