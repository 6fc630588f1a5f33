#pragma once

#include <memory>

#include "horo/device/caching_allocator.h"
#include "horo/device/stream.h"
#include "ops/backend/batch_norm_arrays.h"
#include "ops/backend/shapes.h"

// The operations of the libraries of a backend, each for one fixed shape. Arrays are in the memory
// of the backend and start at multiples of 16 bytes. On a device, work is submitted to the stream
// of the operation, and nothing blocks. On the CPU, a call returns when its result is complete.
// Used from one thread at a time.

namespace horo::ops {

/// A convolution or a fully connected layer: the output is linear in the weights and in the input.
/// All arrays, including biases [out], have one type.
class WeightedOperation {
 public:
  virtual ~WeightedOperation() = default;
  /// Writes output. `bias` is null if the shape has none.
  virtual void forward(const void* input, const void* weights, const void* bias, void* output) = 0;
  /// Overwrites weights_gradient. Overwrites bias_gradient too if the shape has a bias and the
  /// pointer is not null.
  virtual void backward_weights(const void* input, const void* output_gradient,
                                void* weights_gradient, void* bias_gradient) = 0;
  /// Overwrites input_gradient.
  virtual void backward_data(const void* weights, const void* output_gradient,
                             void* input_gradient) = 0;
};

/// A fully connected layer and the activation after it as one product. All arrays have one type.
class ActivatedOperation {
 public:
  virtual ~ActivatedOperation() = default;
  /// The size of `kept`, which holds what the gradient of the activation needs. For GELU this is
  /// the input of the activation, in the layout of the output. For ReLU it is one bit per value for
  /// backward(). Without a next layer, ReLU keeps nothing, because its output is enough.
  virtual std::size_t kept_bytes() const = 0;
  /// Writes output, and `kept` unless that is null.
  virtual void forward(const void* input, const void* weights, const void* bias, void* output,
                       void* kept) = 0;
  /// Computes the backward pass of the next layer and of this activation as one product. Overwrites
  /// `gradient` [batch, out_features], the gradient by the input of the activation, and
  /// bias_gradient, its sum over the batch. `next_weights` has the shape [next_out_features,
  /// out_features].
  virtual void backward(const void* next_weights, const void* next_output_gradient,
                        const void* kept, void* gradient, void* bias_gradient) = 0;
};

class PoolOperation {
 public:
  virtual ~PoolOperation() = default;
  /// With is_training, stores what backward() needs besides the arrays that it reads.
  virtual void forward(const void* input, void* output, bool is_training) = 0;
  /// Whether backward() reads `input` and `output`. Otherwise they may be null.
  virtual bool reads_forward_arrays() const = 0;
  /// Overwrites input_gradient, for the latest forward() in training. `input` and `output` as
  /// there.
  virtual void backward(const void* input, const void* output, const void* output_gradient,
                        void* input_gradient) = 0;
};

class BatchNormOperation {
 public:
  virtual ~BatchNormOperation() = default;
  /// Whether the arrays may have an addend and a ReLU. If not, such arrays throw InvalidArgument.
  virtual bool can_fuse() const = 0;
  /// Normalises with the statistics of this batch and updates the running statistics.
  virtual void forward_training(const BatchNormTraining& arrays) = 0;
  /// Normalises with the given statistics.
  virtual void forward_inference(const BatchNormInference& arrays) = 0;
  /// Overwrites the three gradients.
  virtual void backward(const BatchNormBackward& arrays) = 0;
};

/// How the operations of a GPU choose between ways to compute.
struct MathOptions {
  enum class Convolutions {
    kGraph,   ///< engines of cuDNN's graph API where it has a suitable one
    kLegacy,  ///< cuDNN's older functions
  };
  Convolutions convolutions = Convolutions::kGraph;
  /// The number of multiprocessors that matrix products of the backward pass leave to other
  /// kernels, such as those of an exchange that overlaps with them. An operation throws
  /// InvalidArgument on creation if the GPU has no more than that.
  int reserved_multiprocessors = 0;
};

/// Creates the operations of a backend. Must outlive them.
class Operations {
 public:
  virtual ~Operations() = default;
  /// For the operations that are created later. The CPU and the host stand-in ignore them.
  virtual void set_options(const MathOptions& /*options*/) {}
  virtual std::unique_ptr<WeightedOperation> convolution(const ConvolutionShape& shape,
                                                         const ImageFormat& format) = 0;
  virtual std::unique_ptr<WeightedOperation> linear(const InnerProductShape& shape,
                                                    DataType type) = 0;
  /// Null if the libraries do not support the shape. The answer for a shape is always the same.
  virtual std::unique_ptr<ActivatedOperation> activated_linear(const ActivatedShape& shape,
                                                               DataType type) = 0;
  virtual std::unique_ptr<PoolOperation> max_pool(const PoolShape& shape,
                                                  const ImageFormat& format) = 0;
  /// Averages do not count the padding.
  virtual std::unique_ptr<PoolOperation> average_pool(const PoolShape& shape,
                                                      const ImageFormat& format) = 0;
  /// [batch, channels, height, width] to [batch, channels].
  virtual std::unique_ptr<PoolOperation> global_average_pool(const ImageBatch& input,
                                                             const ImageFormat& format) = 0;
  /// `epsilon` is added to the variance before the square root.
  virtual std::unique_ptr<BatchNormOperation> batch_norm(const ImageBatch& shape, float epsilon,
                                                         const ImageFormat& format) = 0;
};

/// The operations of oneDNN for float32 in host memory. Filters are row-major in every layout.
std::unique_ptr<Operations> make_cpu_operations();

/// Makes operations that run the CPU kernels on a stream of device::HostDevice. Used in tests;
/// slow.
std::unique_ptr<Operations> make_host_operations(device::Stream& stream,
                                                 device::CachingAllocator& allocator);

/// Uses cuDNN and cuBLASLt on the current GPU of the calling thread, with a shared workspace from
/// `allocator`. The heuristics of the libraries choose the algorithms, so results have the same
/// bits in every run. Throws DeviceError if horo was built without CUDA. Operations throw
/// DeviceError if the libraries cannot be loaded.
std::unique_ptr<Operations> make_cuda_operations(device::Stream& stream,
                                                 device::CachingAllocator& allocator);

}  // namespace horo::ops
