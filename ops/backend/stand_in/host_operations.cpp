#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "horo/device/host/host_device.h"
#include "ops/backend/cpu/batch_norm.h"
#include "ops/backend/cpu/convolution.h"
#include "ops/backend/cpu/elementwise.h"
#include "ops/backend/cpu/inner_product.h"
#include "ops/backend/cpu/pooling.h"
#include "ops/backend/device/padded_convolution.h"
#include "ops/backend/operations.h"
#include "ops/backend/stand_in/host_array.h"

namespace horo::ops {

namespace {

/// One bit per value, with the row length of cuBLASLt: rows are padded to multiples of 128 bits.
struct Bits {
  std::size_t rows, columns;

  std::size_t row_bytes() const { return (columns + 127) / 128 * 16; }
  std::size_t bytes() const { return rows * row_bytes(); }
  /// A bit is 1 where the value is not 0.
  void write(const std::vector<float>& values, std::uint8_t* to) const {
    std::fill_n(to, bytes(), std::uint8_t{0});
    for (std::size_t i = 0; i < values.size(); ++i) {
      const unsigned bit = values[i] != 0 ? 1u : 0u;
      to[byte_of(i)] = static_cast<std::uint8_t>(to[byte_of(i)] | bit << i % columns % 8);
    }
  }
  /// The bits as 0 and 1.
  std::vector<float> read(const std::uint8_t* from) const {
    std::vector<float> values(rows * columns);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(from[byte_of(i)] >> i % columns % 8 & 1);
    return values;
  }

 private:
  std::size_t byte_of(std::size_t i) const { return i / columns * row_bytes() + i % columns / 8; }
};

/// The shapes and kernels that the submitted work needs. The work shares the ownership, since it
/// may run after the operation is destroyed.
struct State {
  State(const ActivatedShape& shape_, DataType type)
      : shape(shape_),
        kernel(shape.linear),
        input(shape.linear.batch, shape.linear.in_features, type),
        weights(shape.linear.out_features, shape.linear.in_features, type),
        bias(1, shape.linear.out_features, type),
        output(shape.linear.batch, shape.linear.out_features, type),
        next_weights(shape.next_out_features, shape.linear.out_features, type),
        next_output(shape.linear.batch, shape.next_out_features, type),
        bits{shape.linear.batch, shape.linear.out_features} {
    if (shape.next_out_features > 0)
      next.emplace(InnerProductShape{.batch = shape.linear.batch,
                                     .in_features = shape.linear.out_features,
                                     .out_features = shape.next_out_features,
                                     .has_bias = false});
  }
  std::size_t kept_bytes() const {
    if (shape.activation == Activation::kGelu) return output.count() * size_of(output.type);
    return next ? bits.bytes() : 0;
  }

  ActivatedShape shape;
  cpu::InnerProductKernel kernel;
  std::optional<cpu::InnerProductKernel> next;
  HostArray input, weights, bias, output, next_weights, next_output;
  Bits bits;
};

class HostActivatedLinear : public ActivatedOperation {
 public:
  HostActivatedLinear(device::Stream& stream, const ActivatedShape& shape, DataType type)
      : stream_(stream), state_(std::make_shared<State>(shape, type)) {}

  std::size_t kept_bytes() const override { return state_->kept_bytes(); }

  // Until the activation, `y` holds x W^T + b. GELU keeps this input of the activation, rounded to
  // the type of the output. ReLU keeps one bit per value.
  void forward(const void* input, const void* weights, const void* bias, void* output,
               void* kept) override {
    device::submit(stream_, [=, state = state_] {
      std::vector<float> y(state->output.count());
      state->kernel.forward(read(state->input, input).data(), read(state->weights, weights).data(),
                            read(state->bias, bias).data(), y.data());
      if (state->shape.activation == Activation::kGelu) {
        if (kept != nullptr) write(state->output, y, kept);
        cpu::gelu_forward(y);
      } else {
        cpu::relu_forward(y);
        if (kept != nullptr) state->bits.write(y, static_cast<std::uint8_t*>(kept));
      }
      write(state->output, y, output);
    });
  }

  // The sums for the bias are taken from the float32 values, before these are rounded to the type
  // of the gradient, as in a fused product.
  void backward(const void* next_weights, const void* next_output_gradient, const void* kept,
                void* gradient, void* bias_gradient) override {
    device::submit(stream_, [=, state = state_] {
      std::vector<float> dx(state->output.count()), sums(state->bias.count());
      state->next->backward_data(read(state->next_weights, next_weights).data(),
                                 read(state->next_output, next_output_gradient).data(), dx.data());
      if (state->shape.activation == Activation::kGelu)
        cpu::gelu_backward(dx, read(state->output, kept));
      else
        cpu::relu_backward(dx, state->bits.read(static_cast<const std::uint8_t*>(kept)));
      for (std::size_t i = 0; i < dx.size(); ++i) sums[i % sums.size()] += dx[i];
      write(state->output, dx, gradient);
      write(state->bias, sums, bias_gradient);
    });
  }

 private:
  device::Stream& stream_;
  std::shared_ptr<State> state_;
};

// Like cuBLASLt, returns null for GELU if the number of output features is not a multiple of 8.
// Also returns null for a batch of 1, so that tests cover layers without the fused operation.
std::unique_ptr<ActivatedOperation> make_host_activated_linear(device::Stream& stream,
                                                               const ActivatedShape& shape,
                                                               DataType type) {
  const bool fits = shape.activation != Activation::kGelu || shape.linear.out_features % 8 == 0;
  if (!fits || shape.linear.batch == 1) return nullptr;
  return std::make_unique<HostActivatedLinear>(stream, shape, type);
}

// Work on the stream shares the ownership of its kernel, since it may run after the operation has
// been destroyed. It gets addresses, not tensors: the caller keeps the memory valid in stream
// order.

/// `Kernel` is cpu::ConvolutionKernel or cpu::InnerProductKernel. Without a bias, arrays.bias has
/// no values, and a null address is never read.
template <typename Kernel>
class HostWeighted : public WeightedOperation {
 public:
  struct Arrays {
    HostArray input, weights, bias, output;
  };
  HostWeighted(device::Stream& stream, std::shared_ptr<Kernel> kernel, const Arrays& arrays)
      : stream_(stream), kernel_(std::move(kernel)), arrays_(arrays) {}

  void forward(const void* input, const void* weights, const void* bias, void* output) override {
    device::submit(stream_, [=, kernel = kernel_, arrays = arrays_] {
      std::vector<float> y(arrays.output.count());
      kernel->forward(read(arrays.input, input).data(), read(arrays.weights, weights).data(),
                      read(arrays.bias, bias).data(), y.data());
      write(arrays.output, y, output);
    });
  }
  void backward_weights(const void* input, const void* output_gradient, void* weights_gradient,
                        void* bias_gradient) override {
    device::submit(stream_, [=, kernel = kernel_, arrays = arrays_] {
      std::vector<float> dw(arrays.weights.count()), db(arrays.bias.count());
      kernel->backward_weights(read(arrays.input, input).data(),
                               read(arrays.output, output_gradient).data(), dw.data(), db.data());
      write(arrays.weights, dw, weights_gradient);
      if (bias_gradient != nullptr) write(arrays.bias, db, bias_gradient);
    });
  }
  void backward_data(const void* weights, const void* output_gradient,
                     void* input_gradient) override {
    device::submit(stream_, [=, kernel = kernel_, arrays = arrays_] {
      std::vector<float> dx(arrays.input.count());
      kernel->backward_data(read(arrays.weights, weights).data(),
                            read(arrays.output, output_gradient).data(), dx.data());
      write(arrays.input, dx, input_gradient);
    });
  }

 private:
  device::Stream& stream_;
  std::shared_ptr<Kernel> kernel_;
  Arrays arrays_;
};

class HostPool : public PoolOperation {
 public:
  HostPool(device::Stream& stream, cpu::PoolKernel::Kind kind, const PoolShape& shape,
           const ImageFormat& format)
      : stream_(stream),
        kernel_(std::make_shared<cpu::PoolKernel>(kind, shape)),
        input_(shape.input, format),
        output_(shape.output(), format) {}

  void forward(const void* input, void* output, bool) override {
    device::submit(stream_, [=, kernel = kernel_, from = input_, to = output_] {
      std::vector<float> y(to.count());
      kernel->forward_inference(read(from, input).data(), y.data());
      write(to, y, output);
    });
  }
  bool reads_forward_arrays() const override { return true; }
  void backward(const void* input, const void*, const void* output_gradient,
                void* input_gradient) override {
    device::submit(stream_, [=, kernel = kernel_, from = input_, to = output_] {
      std::vector<float> y(to.count()), dx(from.count());
      // The CPU kernel stores the largest pixels itself, so the forward pass is repeated here. The
      // operation keeps no state between its passes, like cuDNN.
      kernel->forward_training(read(from, input).data(), y.data());  // records the largest pixels
      kernel->backward(read(to, output_gradient).data(), dx.data());
      write(from, dx, input_gradient);
    });
  }

 private:
  device::Stream& stream_;
  std::shared_ptr<cpu::PoolKernel> kernel_;
  HostArray input_, output_;
};

/// The gradient of an average does not depend on the values, so backward() ignores the input and
/// the output.
class HostGlobalAveragePool : public PoolOperation {
 public:
  HostGlobalAveragePool(device::Stream& stream, const ImageBatch& shape, const ImageFormat& format)
      : stream_(stream),
        shape_(shape),
        input_(shape, format),
        output_(shape.batch, shape.channels, format.type) {}

  void forward(const void* input, void* output, bool) override {
    device::submit(stream_, [=, shape = shape_, from = input_, to = output_] {
      std::vector<float> y(to.count());
      cpu::global_average_pool(shape, ImageLayout::kChannelsFirst, read(from, input), y);
      write(to, y, output);
    });
  }
  bool reads_forward_arrays() const override { return false; }
  void backward(const void*, const void*, const void* output_gradient,
                void* input_gradient) override {
    device::submit(stream_, [=, shape = shape_, from = input_, to = output_] {
      std::vector<float> dx(from.count());
      cpu::global_average_pool_backward(shape, ImageLayout::kChannelsFirst,
                                        read(to, output_gradient), dx);
      write(from, dx, input_gradient);
    });
  }

 private:
  device::Stream& stream_;
  ImageBatch shape_;
  HostArray input_, output_;
};

class HostBatchNorm : public BatchNormOperation {
 public:
  HostBatchNorm(device::Stream& stream, const ImageBatch& shape, float epsilon,
                const ImageFormat& format)
      : stream_(stream),
        kernel_(std::make_shared<cpu::BatchNormKernel>(shape, epsilon)),
        images_(shape, format),
        epsilon_(static_cast<double>(epsilon)) {}

  bool can_fuse() const override { return true; }
  void forward_training(const BatchNormTraining& arrays) override {
    device::submit(stream_, [kernel = kernel_, images = images_, epsilon = epsilon_, arrays] {
      std::vector<float> y(images.count()), variance(images.channels);
      kernel->forward_training(read(images, arrays.input).data(), arrays.scale, arrays.shift,
                               y.data(), arrays.mean, variance.data());
      fuse(images, y, arrays.addend, arrays.has_relu);
      write(images, y, arrays.output);
      // The CPU kernel returns the biased variance. The running variance uses the unbiased one, and
      // backward() needs 1 / sqrt(biased + epsilon), as with cuDNN.
      const auto count = static_cast<double>(images.batch * images.pixels);
      for (std::size_t c = 0; c < images.channels; ++c) {
        const auto mean = static_cast<double>(arrays.mean[c]);
        const auto biased = static_cast<double>(variance[c]);
        move_towards(arrays.running_mean[c], mean, arrays.momentum);
        move_towards(arrays.running_variance[c], biased * count / (count - 1), arrays.momentum);
        arrays.inverse_deviation[c] = static_cast<float>(1 / std::sqrt(biased + epsilon));
      }
    });
  }
  void forward_inference(const BatchNormInference& arrays) override {
    device::submit(stream_, [kernel = kernel_, images = images_, arrays] {
      std::vector<float> y(images.count());
      kernel->forward_inference(read(images, arrays.input).data(), arrays.scale, arrays.shift,
                                arrays.mean, arrays.variance, y.data());
      fuse(images, y, arrays.addend, arrays.has_relu);
      write(images, y, arrays.output);
    });
  }
  void backward(const BatchNormBackward& arrays) override {
    device::submit(stream_, [kernel = kernel_, images = images_, epsilon = epsilon_, arrays] {
      std::vector<float> dx(images.count()), variance(images.channels);
      for (std::size_t c = 0; c < images.channels; ++c) {
        const auto inverse = static_cast<double>(arrays.inverse_deviation[c]);
        // cuDNN's interface keeps 1 / sqrt(variance + epsilon); the CPU kernel needs the variance.
        variance[c] = static_cast<float>(1 / (inverse * inverse) - epsilon);
      }
      std::vector<float> dy = read(images, arrays.output_gradient);
      if (arrays.output != nullptr) {
        const std::vector<float> y = read(images, arrays.output);
        for (std::size_t i = 0; i < y.size(); ++i) dy[i] = y[i] <= 0 ? 0 : dy[i];
      }
      if (arrays.addend_gradient != nullptr) write(images, dy, arrays.addend_gradient);
      kernel->backward(read(images, arrays.input).data(), dy.data(), arrays.scale, arrays.mean,
                       variance.data(), dx.data(), arrays.scale_gradient, arrays.shift_gradient);
      write(images, dx, arrays.input_gradient);
    });
  }

 private:
  // Adds `addend`, unless it is null, and applies ReLU if there is one.
  static void fuse(const HostArray& images, std::vector<float>& y, const void* addend,
                   bool has_relu) {
    if (addend != nullptr) {
      const std::vector<float> more = read(images, addend);
      for (std::size_t i = 0; i < y.size(); ++i) y[i] += more[i];
    }
    if (!has_relu) return;
    for (float& value : y) value = value <= 0 ? 0 : value;
  }
  static void move_towards(float& value, double target, double share) {
    value += static_cast<float>(share * (target - static_cast<double>(value)));
  }

  device::Stream& stream_;
  std::shared_ptr<cpu::BatchNormKernel> kernel_;
  HostArray images_;
  double epsilon_;
};

// Converts each operand to float32 in the CPU's layout, calls the CPU kernel and converts the
// result. Slow, but it exercises the types and layouts of the GPU path.
class HostOperations : public Operations {
 public:
  HostOperations(device::Stream& stream, device::CachingAllocator& allocator)
      : stream_(stream), allocator_(allocator) {}

  std::unique_ptr<WeightedOperation> convolution(const ConvolutionShape& shape,
                                                 const ImageFormat& format) override {
    if (needs_padded_channels(shape, format))
      return make_padded_convolution(convolution(with_padded_channels(shape), format), shape,
                                     stream_, allocator_);
    using Operation = HostWeighted<cpu::ConvolutionKernel>;
    const std::size_t side = shape.window.size, out = shape.out_channels;
    return std::make_unique<Operation>(
        stream_, std::make_shared<cpu::ConvolutionKernel>(shape),
        Operation::Arrays{{shape.input, format},
                          {ImageBatch{out, shape.input.channels, side, side}, format},
                          {1, shape.has_bias ? out : 0, format.type},
                          {shape.output(), format}});
  }
  std::unique_ptr<WeightedOperation> linear(const InnerProductShape& shape,
                                            DataType type) override {
    using Operation = HostWeighted<cpu::InnerProductKernel>;
    return std::make_unique<Operation>(
        stream_, std::make_shared<cpu::InnerProductKernel>(shape),
        Operation::Arrays{{shape.batch, shape.in_features, type},
                          {shape.out_features, shape.in_features, type},
                          {1, shape.has_bias ? shape.out_features : 0, type},
                          {shape.batch, shape.out_features, type}});
  }
  std::unique_ptr<ActivatedOperation> activated_linear(const ActivatedShape& shape,
                                                       DataType type) override {
    return make_host_activated_linear(stream_, shape, type);
  }
  std::unique_ptr<PoolOperation> max_pool(const PoolShape& shape,
                                          const ImageFormat& format) override {
    return std::make_unique<HostPool>(stream_, cpu::PoolKernel::Kind::kLargest, shape, format);
  }
  std::unique_ptr<PoolOperation> average_pool(const PoolShape& shape,
                                              const ImageFormat& format) override {
    return std::make_unique<HostPool>(stream_, cpu::PoolKernel::Kind::kAverage, shape, format);
  }
  std::unique_ptr<PoolOperation> global_average_pool(const ImageBatch& input,
                                                     const ImageFormat& format) override {
    return std::make_unique<HostGlobalAveragePool>(stream_, input, format);
  }
  std::unique_ptr<BatchNormOperation> batch_norm(const ImageBatch& shape, float epsilon,
                                                 const ImageFormat& format) override {
    return std::make_unique<HostBatchNorm>(stream_, shape, epsilon, format);
  }

 private:
  device::Stream& stream_;
  device::CachingAllocator& allocator_;
};

}  // namespace

std::unique_ptr<Operations> make_host_operations(device::Stream& stream,
                                                 device::CachingAllocator& allocator) {
  return std::make_unique<HostOperations>(stream, allocator);
}

}  // namespace horo::ops
