#pragma once

#include <memory>

#include "horo/device/caching_allocator.h"
#include "horo/device/device.h"
#include "ops/backend/backend.h"
#include "ops/tensor/tensor_transfer.h"

namespace horo::ops {

/// Computes on a device: on a GPU with NVIDIA's libraries, on device::HostDevice with the CPU
/// kernels (used in tests; slow). Element-wise functions are kernels of ops/backend/device on both.
class DeviceBackend : public Backend {
 public:
  /// Uses the libraries of `device`, which must outlive this, and creates a stream. With kFloat32
  /// the layout is channels first and products have full precision. With kBFloat16 and kFloat16 it
  /// is channels last, which tensor cores read without a transposition. Throws InvalidArgument for
  /// other types. A GPU becomes the current device of the calling thread.
  explicit DeviceBackend(device::Device& device, DataType type = DataType::kFloat32);
  /// Waits for the stream.
  ~DeviceBackend() override;

  device::Device& device() const { return device_; }
  device::Stream& stream() const { return *stream_; }
  device::CachingAllocator& allocator() { return allocator_; }
  /// Copies between host and device on stream().
  TensorTransfer& transfer() { return transfer_; }

  Operations& operations() override { return *operations_; }
  device::Stream* device_stream() override { return stream_.get(); }
  bool fuses_layers() const override { return true; }
  /// The memory of the tensor returns to allocator() when the tensor is destroyed.
  Tensor allocate(Shape shape, DataType type) override;
  using Backend::allocate;

  Tensor from_host(Tensor host) override;
  Tensor to_host(const Tensor& own) override;
  /// Throws InvalidArgument for a tensor that is not on this device.
  Tensor in_own_order(Tensor x, DataType type) override;
  Tensor in_host_order(Tensor x, DataType type) override;
  Tensor converted(const Tensor& x, DataType type) override;

  Tensor relu(Tensor x) override;
  Tensor add_relu(Tensor a, const Tensor& b) override;
  Tensor relu_backward(Tensor dy, const Tensor& y) override;
  Tensor add_relu_backward(Tensor a, const Tensor& b, const Tensor& y) override;
  Tensor add(Tensor a, const Tensor& b) override;
  Tensor gelu(const Tensor& x) override;
  Tensor gelu_backward(Tensor dy, const Tensor& x) override;
  Tensor dropout(Tensor x, const device_kernels::DropoutDraw& draw, Tensor& mask) override;

  Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, float epsilon,
                    Tensor& statistics) override;
  Tensor layer_norm_backward(Tensor dy, const Tensor& x, const Tensor& scale,
                             const Tensor& statistics, Tensor& scale_gradient,
                             Tensor& shift_gradient) override;
  Tensor embedding(const Tensor& tokens, const Tensor& table,
                   const Tensor& position_table) override;
  void embedding_backward(const Tensor& dy, const Tensor& tokens, Tensor& table_gradient,
                          Tensor& position_gradient) override;
  /// Heads have at most device_kernels::kMaxHeadSize features; otherwise throws InvalidArgument.
  Tensor attention(const Tensor& qkv, const AttentionShape& shape, Tensor& kept) override;
  Tensor attention_backward(const Tensor& dy, const Tensor& y, const Tensor& qkv,
                            const AttentionShape& shape, const Tensor& kept) override;

  void add_to(Tensor& to, const Tensor& sum, const Tensor& values) override;
  /// A class out of range sets the loss and the gradient of its row to NaN.
  void cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options, const LossArguments& to) override;
  void squared_error(const Tensor& output, const Tensor& targets, const LossArguments& to) override;

 private:
  device::Device& device_;
  std::unique_ptr<device::Stream> stream_;
  device::CachingAllocator allocator_;
  TensorTransfer transfer_;
  std::unique_ptr<Operations> operations_;
};

}  // namespace horo::ops
