#include <cmath>
#include <utility>

#include "horo/base/device/host_device.h"
#include "ops/kernels/cpu/average_pool.h"
#include "ops/kernels/cpu/batch_norm.h"
#include "ops/kernels/cpu/convolution.h"
#include "ops/kernels/cpu/inner_product.h"
#include "ops/kernels/cpu/max_pool.h"
#include "ops/nn/device/device_math.h"
#include "ops/nn/device/host_activated_linear.h"
#include "ops/nn/device/host_array.h"

// Work holds on to its kernel: the stream may come to it after the operation has gone.

namespace horo::ops {
namespace {

/// Kernel: cpu::ConvolutionKernel or cpu::InnerProductKernel.
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

class HostMaxPool : public PoolOperation {
 public:
  HostMaxPool(device::Stream& stream, const PoolShape& shape, const ImageFormat& format)
      : stream_(stream),
        kernel_(std::make_shared<cpu::MaxPoolKernel>(shape)),
        input_(shape.input, format),
        output_(shape.output(), format) {}

  void forward(const void* input, void* output) override {
    device::submit(stream_, [=, kernel = kernel_, from = input_, to = output_] {
      std::vector<float> y(to.count());
      kernel->forward_inference(read(from, input).data(), y.data());
      write(to, y, output);
    });
  }
  void backward(const void* input, const void*, const void* output_gradient,
                void* input_gradient) override {
    device::submit(stream_, [=, kernel = kernel_, from = input_, to = output_] {
      std::vector<float> y(to.count()), dx(from.count());
      kernel->forward_training(read(from, input).data(), y.data());  // finds the winners again
      kernel->backward(read(to, output_gradient).data(), dx.data());
      write(from, dx, input_gradient);
    });
  }

 private:
  device::Stream& stream_;
  std::shared_ptr<cpu::MaxPoolKernel> kernel_;
  HostArray input_, output_;
};

class HostAveragePool : public PoolOperation {
 public:
  HostAveragePool(device::Stream& stream, const ImageBatch& input, const ImageFormat& format)
      : stream_(stream), input_(input, format), output_(input.batch, input.channels, format.type) {}

  void forward(const void* input, void* output) override {
    device::submit(stream_, [=, from = input_, to = output_] {
      std::vector<float> y(to.count());
      cpu::global_average_pool(read(from, input), from.pixels, y);
      write(to, y, output);
    });
  }
  void backward(const void*, const void*, const void* output_gradient,
                void* input_gradient) override {
    device::submit(stream_, [=, from = input_, to = output_] {
      std::vector<float> dx(from.count());
      cpu::global_average_pool_backward(read(to, output_gradient), from.pixels, dx);
      write(from, dx, input_gradient);
    });
  }

 private:
  device::Stream& stream_;
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

  void forward_training(const BatchNormTraining& arrays) override {
    device::submit(stream_, [kernel = kernel_, images = images_, epsilon = epsilon_, arrays] {
      std::vector<float> y(images.count()), variance(images.channels);
      kernel->forward_training(read(images, arrays.input).data(), arrays.scale, arrays.shift,
                               y.data(), arrays.mean, variance.data());
      write(images, y, arrays.output);
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
      write(images, y, arrays.output);
    });
  }
  void backward(const BatchNormBackward& arrays) override {
    device::submit(stream_, [kernel = kernel_, images = images_, epsilon = epsilon_, arrays] {
      std::vector<float> dx(images.count()), variance(images.channels);
      for (std::size_t c = 0; c < images.channels; ++c) {
        const auto inverse = static_cast<double>(arrays.inverse_deviation[c]);
        variance[c] = static_cast<float>(1 / (inverse * inverse) - epsilon);
      }
      kernel->backward(read(images, arrays.input).data(),
                       read(images, arrays.output_gradient).data(), arrays.scale, arrays.mean,
                       variance.data(), dx.data(), arrays.scale_gradient, arrays.shift_gradient);
      write(images, dx, arrays.input_gradient);
    });
  }

 private:
  static void move_towards(float& value, double target, double share) {
    value += static_cast<float>(share * (target - static_cast<double>(value)));
  }

  device::Stream& stream_;
  std::shared_ptr<cpu::BatchNormKernel> kernel_;
  HostArray images_;
  double epsilon_;
};

class HostMath : public DeviceMath {
 public:
  explicit HostMath(device::Stream& stream) : stream_(stream) {}

  std::unique_ptr<WeightedOperation> convolution(const ConvolutionShape& shape,
                                                 const ImageFormat& format) override {
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
    return std::make_unique<HostMaxPool>(stream_, shape, format);
  }
  std::unique_ptr<PoolOperation> average_pool(const ImageBatch& input,
                                              const ImageFormat& format) override {
    return std::make_unique<HostAveragePool>(stream_, input, format);
  }
  std::unique_ptr<BatchNormOperation> batch_norm(const ImageBatch& shape, float epsilon,
                                                 const ImageFormat& format) override {
    return std::make_unique<HostBatchNorm>(stream_, shape, epsilon, format);
  }

 private:
  device::Stream& stream_;
};

}  // namespace

std::unique_ptr<DeviceMath> make_host_math(device::Stream& stream) {
  return std::make_unique<HostMath>(stream);
}

}  // namespace horo::ops
