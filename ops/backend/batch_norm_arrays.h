#pragma once

namespace horo::ops {

// The arrays of a batch normalisation, in the memory of its backend. Images have their own
// format; all other arrays are float32 [channels]. The operation may be fused with the addition of
// images of the same shape and with a ReLU after it: output = relu(normalised + addend).

struct BatchNormTraining {
  const void* input;
  const float* scale;
  const float* shift;
  void* output;
  /// new = (1 - momentum) * old + momentum * value of the batch, with the unbiased variance.
  float* running_mean;
  float* running_variance;
  double momentum;
  /// Of the batch, for the backward pass: the mean, and 1 / sqrt(biased variance + epsilon).
  float* mean;
  float* inverse_deviation;
  const void* addend = nullptr;  ///< null: none
  bool has_relu = false;
};

struct BatchNormInference {
  const void* input;
  const float* scale;
  const float* shift;
  const float* mean;
  const float* variance;
  void* output;
  const void* addend = nullptr;
  bool has_relu = false;
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
  /// The output of the forward pass if it had a ReLU; otherwise null.
  const void* output = nullptr;
  /// Receives the gradient by the addend, if the forward pass had one; otherwise null.
  void* addend_gradient = nullptr;
};

}  // namespace horo::ops
