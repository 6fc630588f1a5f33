#include <cmath>
#include <cstddef>
#include <memory>
#include <vector>

#include "ops/backend/cpu/batch_norm.h"
#include "ops/backend/cpu/channels_last_norm.h"
#include "ops/backend/cpu/convolution.h"
#include "ops/backend/cpu/inner_product.h"
#include "ops/backend/cpu/pooling.h"
#include "ops/backend/operations.h"

namespace horo::ops {
namespace {

const float* floats(const void* array) { return static_cast<const float*>(array); }
float* floats(void* array) { return static_cast<float*>(array); }

/// `Kernel` is cpu::ConvolutionKernel or cpu::InnerProductKernel.
template <typename Kernel>
class CpuWeighted : public WeightedOperation {
 public:
  template <typename... Arguments>
  explicit CpuWeighted(const Arguments&... arguments) : kernel_(arguments...) {}

  void forward(const void* input, const void* weights, const void* bias, void* output) override {
    kernel_.forward(floats(input), floats(weights), floats(bias), floats(output));
  }
  void backward_weights(const void* input, const void* output_gradient, void* weights_gradient,
                        void* bias_gradient) override {
    kernel_.backward_weights(floats(input), floats(output_gradient), floats(weights_gradient),
                             floats(bias_gradient));
  }
  void backward_data(const void* weights, const void* output_gradient,
                     void* input_gradient) override {
    kernel_.backward_data(floats(weights), floats(output_gradient), floats(input_gradient));
  }

 private:
  Kernel kernel_;
};

/// The kernel records the largest pixels of the training pass, so backward() needs no arrays.
class CpuPool : public PoolOperation {
 public:
  CpuPool(cpu::PoolKernel::Kind kind, const PoolShape& shape, const ImageFormat& format)
      : kernel_(kind, shape, format.layout) {}

  void forward(const void* input, void* output, bool is_training) override {
    if (is_training)
      kernel_.forward_training(floats(input), floats(output));
    else
      kernel_.forward_inference(floats(input), floats(output));
  }
  bool reads_forward_arrays() const override { return false; }
  void backward(const void*, const void*, const void* output_gradient,
                void* input_gradient) override {
    kernel_.backward(floats(output_gradient), floats(input_gradient));
  }

 private:
  cpu::PoolKernel kernel_;
};

class CpuGlobalAveragePool : public PoolOperation {
 public:
  CpuGlobalAveragePool(const ImageBatch& input, const ImageFormat& format)
      : input_(input), layout_(format.layout) {}

  void forward(const void* input, void* output, bool) override {
    cpu::global_average_pool(input_, layout_, {floats(input), input_.count()},
                             {floats(output), input_.batch * input_.channels});
  }
  bool reads_forward_arrays() const override { return false; }
  void backward(const void*, const void*, const void* output_gradient,
                void* input_gradient) override {
    cpu::global_average_pool_backward(input_, layout_,
                                      {floats(output_gradient), input_.batch * input_.channels},
                                      {floats(input_gradient), input_.count()});
  }

 private:
  ImageBatch input_;
  ImageLayout layout_;
};

class CpuBatchNorm : public BatchNormOperation {
 public:
  CpuBatchNorm(const ImageBatch& shape, float epsilon)
      : shape_(shape), epsilon_(epsilon), variance_(shape.channels), kernel_(shape, epsilon) {}

  bool can_fuse() const override { return false; }
  // The batch is normalised with the biased variance, but the running variance is the unbiased
  // estimate, as in PyTorch.
  void forward_training(const BatchNormTraining& arrays) override {
    kernel_.forward_training(floats(arrays.input), arrays.scale, arrays.shift,
                             floats(arrays.output), arrays.mean, variance_.data());
    const auto share = static_cast<float>(arrays.momentum);
    const auto count = static_cast<float>(shape_.count() / shape_.channels);
    const float unbiased = count / (count - 1.0f);
    for (std::size_t c = 0; c < shape_.channels; ++c) {
      float &mean = arrays.running_mean[c], &variance = arrays.running_variance[c];
      mean += share * (arrays.mean[c] - mean);
      variance += share * (variance_[c] * unbiased - variance);
      arrays.inverse_deviation[c] = 1 / std::sqrt(variance_[c] + epsilon_);
    }
  }
  void forward_inference(const BatchNormInference& arrays) override {
    kernel_.forward_inference(floats(arrays.input), arrays.scale, arrays.shift, arrays.mean,
                              arrays.variance, floats(arrays.output));
  }
  // oneDNN reads the variance.
  void backward(const BatchNormBackward& arrays) override {
    for (std::size_t c = 0; c < shape_.channels; ++c) {
      const auto inverse = static_cast<double>(arrays.inverse_deviation[c]);
      variance_[c] = static_cast<float>(1 / (inverse * inverse) - static_cast<double>(epsilon_));
    }
    kernel_.backward(floats(arrays.input), floats(arrays.output_gradient), arrays.scale,
                     arrays.mean, variance_.data(), floats(arrays.input_gradient),
                     arrays.scale_gradient, arrays.shift_gradient);
  }

 private:
  ImageBatch shape_;
  float epsilon_;
  std::vector<float> variance_;  // biased
  cpu::BatchNormKernel kernel_;
};

class CpuOperations : public Operations {
 public:
  std::unique_ptr<WeightedOperation> convolution(const ConvolutionShape& shape,
                                                 const ImageFormat& format) override {
    return std::make_unique<CpuWeighted<cpu::ConvolutionKernel>>(shape, format.layout);
  }
  std::unique_ptr<WeightedOperation> linear(const InnerProductShape& shape, DataType) override {
    return std::make_unique<CpuWeighted<cpu::InnerProductKernel>>(shape);
  }
  std::unique_ptr<ActivatedOperation> activated_linear(const ActivatedShape&, DataType) override {
    return nullptr;
  }
  std::unique_ptr<PoolOperation> max_pool(const PoolShape& shape,
                                          const ImageFormat& format) override {
    return std::make_unique<CpuPool>(cpu::PoolKernel::Kind::kLargest, shape, format);
  }
  std::unique_ptr<PoolOperation> average_pool(const PoolShape& shape,
                                              const ImageFormat& format) override {
    return std::make_unique<CpuPool>(cpu::PoolKernel::Kind::kAverage, shape, format);
  }
  std::unique_ptr<PoolOperation> global_average_pool(const ImageBatch& input,
                                                     const ImageFormat& format) override {
    return std::make_unique<CpuGlobalAveragePool>(input, format);
  }
  std::unique_ptr<BatchNormOperation> batch_norm(const ImageBatch& shape, float epsilon,
                                                 const ImageFormat& format) override {
    if (format.layout == ImageLayout::kChannelsLast)
      return std::make_unique<cpu::ChannelsLastNorm>(shape, epsilon);
    return std::make_unique<CpuBatchNorm>(shape, epsilon);
  }
};

}  // namespace

std::unique_ptr<Operations> make_cpu_operations() { return std::make_unique<CpuOperations>(); }

}  // namespace horo::ops
