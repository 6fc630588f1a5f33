#include <optional>
#include <span>
#include <utility>

#include "horo/base/error.h"
#include "ops/backend/cuda/convolution.h"
#include "ops/backend/cuda/convolution_graph.h"
#include "ops/backend/cuda/matmul.h"
#include "ops/backend/cuda/pooling.h"
#include "ops/backend/device/float_types.h"
#include "ops/backend/device/matrix.h"
#include "ops/backend/device/norm/batch_norm.h"
#include "ops/backend/device/padded_convolution.h"
#include "ops/backend/operations.h"

namespace horo::ops {
namespace {

/// The limit of the workspace for convolutions. cuDNN takes its best algorithm that fits.
constexpr std::size_t kConvolutionWorkspaceBytes = std::size_t{256} << 20;

/// The handles and the workspace that all operations of a stream share. Operations of one stream
/// run one after the other, so one workspace is enough. A library is loaded when the first
/// operation needs it.
class CudaWork {
 public:
  CudaWork(device::Stream& stream, device::CachingAllocator& allocator)
      : stream_(stream), allocator_(allocator) {}

  device::Stream& stream() const { return stream_; }
  device::CachingAllocator& allocator() const { return allocator_; }
  const cuda::CublasLt& cublas_lt() {
    if (!cublas_lt_) cublas_lt_.emplace();
    return *cublas_lt_;
  }
  cuda::CudnnWork cudnn(std::size_t workspace_bytes = 0) {
    if (!cudnn_) cudnn_.emplace();
    return {*cudnn_, stream_, workspace(workspace_bytes)};
  }
  /// Always returns exactly `bytes`, even if more is allocated, because the libraries choose an
  /// algorithm by this size. Growing is safe while kernels use the old workspace: the allocator
  /// reuses freed memory in stream order.
  std::span<std::byte> workspace(std::size_t bytes) {
    if (workspace_.size() < bytes) workspace_ = allocator_.allocate(bytes, stream_);
    return {workspace_.data(), bytes};
  }
  const MathOptions& options() const { return options_; }
  void set_options(const MathOptions& options) { options_ = options; }
  cuda::ConvolutionPlans& convolution_plans() { return convolution_plans_; }
  /// For MatmulOptions of the backward pass. 0: all.
  std::int32_t backward_multiprocessors() {
    const int reserved = options_.reserved_multiprocessors;
    return reserved == 0 ? 0
                         : cuda::multiprocessors_beside(reserved, cublas_lt().multiprocessors());
  }

 private:
  device::Stream& stream_;
  device::CachingAllocator& allocator_;
  device::Memory workspace_;
  MathOptions options_;
  std::optional<cuda::CublasLt> cublas_lt_;
  std::optional<cuda::Cudnn> cudnn_;
  cuda::ConvolutionPlans convolution_plans_;  // of cudnn_
};

/// Runs an engine of cuDNN's graph API in each direction, or, if there is none, an algorithm of the
/// older functions. Every run passes a workspace of the same size, so what cuDNN chooses in the
/// first run of each direction fits in all later runs.
class CudaConvolution : public WeightedOperation {
 public:
  CudaConvolution(CudaWork& work, const ConvolutionShape& shape, const ImageFormat& format)
      : work_(work),
        kernel_(shape, {.format = format}),
        forward_{shape, format, Direction::kForward},
        backward_data_{shape, format, Direction::kBackwardData},
        backward_weights_{shape, format, Direction::kBackwardWeights} {
    backward_data_.multiprocessors = work.backward_multiprocessors();
    backward_weights_.multiprocessors = work.backward_multiprocessors();
  }

  void forward(const void* input, const void* weights, const void* bias, void* output) override {
    const auto* plan = plan_for(forward_);
    if (plan == nullptr) return kernel_.forward(work(), input, weights, bias, output);
    plan->run(work(), input, weights, output);
    kernel_.add_bias(work(), bias, output);
  }
  void backward_weights(const void* input, const void* output_gradient, void* weights_gradient,
                        void* bias_gradient) override {
    const auto* plan = plan_for(backward_weights_);
    if (plan == nullptr)
      return kernel_.backward_weights(work(), input, output_gradient, weights_gradient,
                                      bias_gradient);
    plan->run(work(), input, weights_gradient, output_gradient);
    kernel_.sum_bias_gradient(work(), output_gradient, bias_gradient);
  }
  void backward_data(const void* weights, const void* output_gradient,
                     void* input_gradient) override {
    const auto* plan = plan_for(backward_data_);
    if (plan == nullptr)
      return kernel_.backward_data(work(), weights, output_gradient, input_gradient);
    plan->run(work(), input_gradient, weights, output_gradient);
  }

 private:
  using Direction = cuda::ConvolutionDirection;
  cuda::CudnnWork work() { return work_.cudnn(kConvolutionWorkspaceBytes); }
  const cuda::ConvolutionPlan* plan_for(const cuda::ConvolutionGraphOptions& options) {
    if (work_.options().convolutions == MathOptions::Convolutions::kLegacy) return nullptr;
    return work_.convolution_plans().find(work(), options);
  }

  CudaWork& work_;
  cuda::ConvolutionKernel kernel_;
  cuda::ConvolutionGraphOptions forward_, backward_data_, backward_weights_;
};

cuda::MatmulOptions backward_options(CudaWork& work, DataType type,
                                     cuda::Epilogue epilogue = cuda::Epilogue::kNone) {
  return {.type = type, .epilogue = epilogue, .multiprocessors = work.backward_multiprocessors()};
}

/// Three products of row-major matrices: y = x W^T, dW = dy^T x, dx = dy W, with x [batch, in], y
/// [batch, out] and W [out, in]. The bias is fused into the first one. A separate kernel sums its
/// gradient, because cuBLASLt can fuse this sum only for some shapes.
class CudaLinear : public WeightedOperation {
 public:
  CudaLinear(CudaWork& work, const InnerProductShape& shape, DataType type)
      : work_(work),
        shape_(shape),
        type_(type),
        forward_(cuda::linear_forward(shape),
                 {.type = type,
                  .epilogue = shape.has_bias ? cuda::Epilogue::kBias : cuda::Epilogue::kNone}),
        by_weights_(cuda::linear_backward_weight(shape), backward_options(work, type)),
        by_input_(cuda::linear_backward_input(shape), backward_options(work, type)) {}

  void forward(const void* input, const void* weights, const void* bias, void* output) override {
    run(forward_, {.left = input,
                   .right = weights,
                   .result = output,
                   .bias = shape_.has_bias ? bias : nullptr});
  }
  void backward_weights(const void* input, const void* output_gradient, void* weights_gradient,
                        void* bias_gradient) override {
    run(by_weights_, {.left = output_gradient, .right = input, .result = weights_gradient});
    if (!shape_.has_bias || bias_gradient == nullptr) return;
    device_kernels::visit_float_type(type_, "the gradient of a linear layer", [&]<typename T>(T) {
      sum_columns<T>(output_gradient, bias_gradient);
    });
  }
  void backward_data(const void* weights, const void* output_gradient,
                     void* input_gradient) override {
    run(by_input_, {.left = output_gradient, .right = weights, .result = input_gradient});
  }

 private:
  void run(cuda::Matmul& matmul, const cuda::MatmulOperands& operands) {
    matmul.run(work_.cublas_lt(), operands, work_.workspace(cuda::kMatmulWorkspaceBytes),
               work_.stream());
  }
  template <typename T>
  void sum_columns(const void* from, void* to) {
    const std::size_t rows = shape_.batch, columns = shape_.out_features;
    const auto scratch =
        work_.workspace(device_kernels::column_sums_scratch(rows, columns) * sizeof(float));
    device_kernels::column_sums(work_.stream(), static_cast<T*>(to), static_cast<const T*>(from),
                                rows, columns, reinterpret_cast<float*>(scratch.data()));
  }

  CudaWork& work_;
  InnerProductShape shape_;
  DataType type_;
  cuda::Matmul forward_, by_weights_, by_input_;
};

/// Up to three products. training_ and inference_ compute act(x W^T + b); only training_ keeps what
/// the gradient needs. backward_ computes dy_next W_next, the gradient by the output of the
/// activation, multiplies it by the derivative of the activation, and sums the columns for the
/// bias.
class CudaActivatedLinear : public ActivatedOperation {
 public:
  CudaActivatedLinear(CudaWork& work, const ActivatedShape& shape, DataType type)
      : work_(work),
        training_(cuda::linear_forward(shape.linear), {.type = type, .epilogue = training(shape)}),
        inference_(
            cuda::linear_forward(shape.linear),
            {.type = type,
             .epilogue = is_gelu(shape) ? cuda::Epilogue::kBiasGelu : cuda::Epilogue::kBiasRelu}) {
    if (shape.next_out_features == 0) return;
    backward_.emplace(cuda::linear_backward_input({.batch = shape.linear.batch,
                                                   .in_features = shape.linear.out_features,
                                                   .out_features = shape.next_out_features}),
                      backward_options(work, type,
                                       is_gelu(shape) ? cuda::Epilogue::kGeluBiasGradient
                                                      : cuda::Epilogue::kReluBiasGradient));
  }
  static bool is_gelu(const ActivatedShape& shape) { return shape.activation == Activation::kGelu; }

  // Whether cuBLASLt has an algorithm for each of the products within the workspace.
  bool can_run() {
    const auto can = [&](cuda::Matmul& matmul) {
      return matmul.can_run(work_.cublas_lt(), cuda::kMatmulWorkspaceBytes);
    };
    return can(training_) && can(inference_) && (!backward_ || can(*backward_));
  }

  std::size_t kept_bytes() const override { return training_.kept_bytes(); }
  void forward(const void* input, const void* weights, const void* bias, void* output,
               void* kept) override {
    run(kept != nullptr ? training_ : inference_,
        {.left = input, .right = weights, .result = output, .bias = bias, .kept = kept});
  }
  void backward(const void* next_weights, const void* next_output_gradient, const void* kept,
                void* gradient, void* bias_gradient) override {
    run(*backward_, {.left = next_output_gradient,
                     .right = next_weights,
                     .result = gradient,
                     .bias_gradient = bias_gradient,
                     .read_kept = kept});
  }

 private:
  // The derivative of GELU needs its input. That of ReLU needs one bit per value if backward_ uses
  // it; otherwise the caller has the output, whose sign is enough.
  static cuda::Epilogue training(const ActivatedShape& shape) {
    if (is_gelu(shape)) return cuda::Epilogue::kBiasGeluKeep;
    return shape.next_out_features > 0 ? cuda::Epilogue::kBiasReluKeep : cuda::Epilogue::kBiasRelu;
  }
  void run(cuda::Matmul& matmul, const cuda::MatmulOperands& operands) {
    matmul.run(work_.cublas_lt(), operands, work_.workspace(cuda::kMatmulWorkspaceBytes),
               work_.stream());
  }

  CudaWork& work_;
  cuda::Matmul training_, inference_;
  std::optional<cuda::Matmul> backward_;
};

/// cuDNN finds the largest pixels again from input and output, so no indices are stored.
class CudaPool : public PoolOperation {
 public:
  CudaPool(CudaWork& work, cuda::PoolKernel kernel) : work_(work), kernel_(std::move(kernel)) {}

  void forward(const void* input, void* output, bool) override {
    kernel_.forward(work_.cudnn(), input, output);
  }
  bool reads_forward_arrays() const override { return true; }
  void backward(const void* input, const void* output, const void* output_gradient,
                void* input_gradient) override {
    kernel_.backward(work_.cudnn(), input, output, output_gradient, input_gradient);
  }

 private:
  CudaWork& work_;
  cuda::PoolKernel kernel_;
};

class CudaBatchNorm : public BatchNormOperation {
 public:
  CudaBatchNorm(CudaWork& work, const ImageBatch& shape, float epsilon, const ImageFormat& format)
      : work_(work),
        shape_(shape),
        epsilon_(epsilon),
        format_(format),
        workspace_bytes_(device_kernels::batch_norm_workspace_bytes(shape, format)) {}

  bool can_fuse() const override { return true; }
  void forward_training(const BatchNormTraining& arrays) override {
    device_kernels::batch_norm_training(work_.stream(), shape_, format_, arrays, epsilon_,
                                        work_.workspace(workspace_bytes_).data());
  }
  void forward_inference(const BatchNormInference& arrays) override {
    device_kernels::batch_norm_inference(work_.stream(), shape_, format_, arrays, epsilon_);
  }
  void backward(const BatchNormBackward& arrays) override {
    device_kernels::batch_norm_backward(work_.stream(), shape_, format_, arrays,
                                        work_.workspace(workspace_bytes_).data());
  }

 private:
  CudaWork& work_;
  ImageBatch shape_;
  float epsilon_;
  ImageFormat format_;
  std::size_t workspace_bytes_;
};

class CudaOperations : public Operations {
 public:
  CudaOperations(device::Stream& stream, device::CachingAllocator& allocator)
      : work_(stream, allocator) {}

  void set_options(const MathOptions& options) override { work_.set_options(options); }
  std::unique_ptr<WeightedOperation> convolution(const ConvolutionShape& shape,
                                                 const ImageFormat& format) override {
    if (needs_padded_channels(shape, format))
      return make_padded_convolution(convolution(with_padded_channels(shape), format), shape,
                                     work_.stream(), work_.allocator());
    return std::make_unique<CudaConvolution>(work_, shape, format);
  }
  std::unique_ptr<WeightedOperation> linear(const InnerProductShape& shape,
                                            DataType type) override {
    return std::make_unique<CudaLinear>(work_, shape, type);
  }
  std::unique_ptr<ActivatedOperation> activated_linear(const ActivatedShape& shape,
                                                       DataType type) override {
    // cuBLASLt's GELU has an error of about 1e-4, which is too much for float32. The constructor of
    // Matmul throws for GELU with a number of features that is not a multiple of 8.
    if (CudaActivatedLinear::is_gelu(shape) &&
        (type == DataType::kFloat32 || shape.linear.out_features % 8 != 0))
      return nullptr;
    auto operation = std::make_unique<CudaActivatedLinear>(work_, shape, type);
    if (!operation->can_run()) return nullptr;
    return operation;
  }
  std::unique_ptr<PoolOperation> max_pool(const PoolShape& shape,
                                          const ImageFormat& format) override {
    return std::make_unique<CudaPool>(work_, cuda::PoolKernel::largest(shape, format));
  }
  std::unique_ptr<PoolOperation> average_pool(const PoolShape& shape,
                                              const ImageFormat& format) override {
    return std::make_unique<CudaPool>(work_, cuda::PoolKernel::average(shape, format));
  }
  std::unique_ptr<PoolOperation> global_average_pool(const ImageBatch& input,
                                                     const ImageFormat& format) override {
    return std::make_unique<CudaPool>(work_, cuda::PoolKernel::average_of_planes(input, format));
  }
  std::unique_ptr<BatchNormOperation> batch_norm(const ImageBatch& shape, float epsilon,
                                                 const ImageFormat& format) override {
    return std::make_unique<CudaBatchNorm>(work_, shape, epsilon, format);
  }

 private:
  CudaWork work_;
};

}  // namespace

std::unique_ptr<Operations> make_cuda_operations(device::Stream& stream,
                                                 device::CachingAllocator& allocator) {
  return std::make_unique<CudaOperations>(stream, allocator);
}

}  // namespace horo::ops
