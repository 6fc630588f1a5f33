#pragma once

#include <memory>

#include "horo/base/device/caching_allocator.h"
#include "horo/base/device/stream.h"
#include "ops/kernels/activation.h"
#include "ops/kernels/batch_norm_arrays.h"
#include "ops/kernels/image_format.h"
#include "ops/kernels/shapes.h"

// The operations that a device's libraries have, each for one fixed shape. Arrays lie in the
// device's memory and begin at multiples of 16 bytes; work is given to the stream that the
// operation was made for, and nothing blocks. Used from one thread at a time.

namespace horo::ops {

/// A convolution or a fully connected stage: the output is linear in the weights and the input. All
/// arrays, biases [out] included, are of one type.
class WeightedOperation {
 public:
  virtual ~WeightedOperation() = default;
  /// Writes output. `bias` is null if the shape has none.
  virtual void forward(const void* input, const void* weights, const void* bias, void* output) = 0;
  /// Overwrites weights_gradient and, if the shape has a bias and it is not null, bias_gradient.
  virtual void backward_weights(const void* input, const void* output_gradient,
                                void* weights_gradient, void* bias_gradient) = 0;
  /// Overwrites input_gradient.
  virtual void backward_data(const void* weights, const void* output_gradient,
                             void* input_gradient) = 0;
};

/// A fully connected stage and the activation behind it as one product. Arrays are of one type.
class ActivatedOperation {
 public:
  virtual ~ActivatedOperation() = default;
  /// Of what the gradient needs: with GELU what went into it, as the output lies; with ReLU bits
  /// for backward(), or nothing if there is no stage behind, since the output tells.
  virtual std::size_t kept_bytes() const = 0;
  /// Writes output, and `kept` unless that is null.
  virtual void forward(const void* input, const void* weights, const void* bias, void* output,
                       void* kept) = 0;
  /// The way back through the stage behind and the activation, as one product too: overwrites
  /// `gradient` [batch, out_features], by what went into the activation, and its sums over the
  /// batch, bias_gradient. `next_weights`: [next_out_features, out_features].
  virtual void backward(const void* next_weights, const void* next_output_gradient,
                        const void* kept, void* gradient, void* bias_gradient) = 0;
};

class PoolOperation {
 public:
  virtual ~PoolOperation() = default;
  virtual void forward(const void* input, void* output) = 0;
  /// Overwrites input_gradient. `input` and `output` as in the forward pass.
  virtual void backward(const void* input, const void* output, const void* output_gradient,
                        void* input_gradient) = 0;
};

class BatchNormOperation {
 public:
  virtual ~BatchNormOperation() = default;
  /// With the statistics of this batch, which also go into the running ones.
  virtual void forward_training(const BatchNormTraining& arrays) = 0;
  /// With the given statistics.
  virtual void forward_inference(const BatchNormInference& arrays) = 0;
  /// Overwrites the three gradients.
  virtual void backward(const BatchNormBackward& arrays) = 0;
};

/// Makes operations for one stream. Outlives them.
class DeviceMath {
 public:
  virtual ~DeviceMath() = default;
  virtual std::unique_ptr<WeightedOperation> convolution(const ConvolutionShape& shape,
                                                         const ImageFormat& format) = 0;
  virtual std::unique_ptr<WeightedOperation> linear(const InnerProductShape& shape,
                                                    DataType type) = 0;
  /// Null if the libraries cannot for that shape: the same answer every time.
  virtual std::unique_ptr<ActivatedOperation> activated_linear(const ActivatedShape& shape,
                                                               DataType type) = 0;
  virtual std::unique_ptr<PoolOperation> max_pool(const PoolShape& shape,
                                                  const ImageFormat& format) = 0;
  /// [batch, channels, height, width] to [batch, channels].
  virtual std::unique_ptr<PoolOperation> average_pool(const ImageBatch& input,
                                                      const ImageFormat& format) = 0;
  /// `epsilon` is added to the variance before the square root.
  virtual std::unique_ptr<BatchNormOperation> batch_norm(const ImageBatch& shape, float epsilon,
                                                         const ImageFormat& format) = 0;
};

/// The CPU's kernels, on a stream of the stand-in (device::HostDevice): for tests, not for speed.
std::unique_ptr<DeviceMath> make_host_math(device::Stream& stream);

/// cuDNN and cuBLASLt on the calling thread's current GPU. The workspace that they share is from
/// `allocator`. Algorithms come from the libraries' heuristics: the same bits every run. Operations
/// throw DeviceError if the libraries cannot be loaded; this does if horo was built without CUDA.
std::unique_ptr<DeviceMath> make_cuda_math(device::Stream& stream,
                                           device::CachingAllocator& allocator);

}  // namespace horo::ops
