#pragma once

#include <memory>
#include <utility>

#include "ops/backend/batch_score.h"
#include "ops/backend/device/dropout.h"
#include "ops/backend/operations.h"
#include "ops/backend/shapes.h"
#include "ops/tensor/tensor.h"

namespace horo::ops {

/// Where and how layers compute: memory, the type and layout of the tensors between layers, and
/// their operations. Layers are written once for all backends. Must outlive the layers that use it
/// and their tensors. On a device, work is submitted to one stream and nothing blocks unless it is
/// documented. Used from one thread at a time, except cpu_backend().
///
/// Shapes of images are always [batch, channels, height, width], and of filters [out, in, height,
/// width]. The order of their elements in memory is "host order" (row-major in this shape), or "own
/// order", which depends on layout(). Other tensors are the same in both orders. Tensors between
/// layers, parameters and gradients are in own order. On the CPU, filters are in host order in both
/// layouts.
class Backend {
 public:
  explicit Backend(const ImageFormat& format) : format_(format) {}
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  /// The type of activations, of their gradients, and of the weights and biases that layers compute
  /// with.
  DataType type() const { return format_.type; }
  ImageLayout layout() const { return format_.layout; }
  const ImageFormat& format() const { return format_; }
  virtual Operations& operations() = 0;
  /// The stream to which work is submitted. Null: a call returns when its result is complete.
  virtual device::Stream* device_stream() { return nullptr; }
  /// Whether groups of layers should be computed together; see fuse().
  virtual bool fuses_layers() const = 0;

  /// Allocates a tensor with undefined values.
  virtual Tensor allocate(Shape shape, DataType type) = 0;
  Tensor allocate(Shape shape) { return allocate(std::move(shape), type()); }

  // Copies of parameters and buffers between host memory (float32, host order) and this backend
  // (float32, own order). Block until the copy is complete. The CPU shares the memory instead of
  // copying.
  virtual Tensor from_host(Tensor host) = 0;
  virtual Tensor to_host(const Tensor& own) = 0;

  // Convert the order and the type of `x`. Return `x` itself if nothing has to change. The input of
  // a model and the gradient by it have to be converted, for example.
  virtual Tensor in_own_order(Tensor x, DataType type) = 0;
  virtual Tensor in_host_order(Tensor x, DataType type) = 0;
  /// A copy of `x` in another type; the order does not change.
  virtual Tensor converted(const Tensor& x, DataType type) = 0;

  // Element-wise functions. A result may have the memory of an argument that is passed by value if
  // no other tensor shares it.
  virtual Tensor relu(Tensor x) = 0;
  /// relu(a + b).
  virtual Tensor add_relu(Tensor a, const Tensor& b) = 0;
  /// The gradient by the input of relu() or add_relu(), whose result was `y`.
  virtual Tensor relu_backward(Tensor dy, const Tensor& y) = 0;
  /// relu_backward() of the sum of two gradients by `y`, without storing the sum.
  virtual Tensor add_relu_backward(Tensor a, const Tensor& b, const Tensor& y) = 0;
  virtual Tensor add(Tensor a, const Tensor& b) = 0;
  virtual Tensor gelu(const Tensor& x) = 0;
  /// The gradient of gelu() by its input `x`.
  virtual Tensor gelu_backward(Tensor dy, const Tensor& x) = 0;
  /// `x` [rows, ...] with values set to zero; see Dropout. The forward pass may store its choice in
  /// `mask`, which is empty; the backward pass gets the same `mask` and draws again if it is empty.
  /// Features are counted in host order.
  virtual Tensor dropout(Tensor x, const device_kernels::DropoutDraw& draw, Tensor& mask) = 0;

  // Functions of rows and of sequences, which have the same order in every layout.

  /// Normalises the rows of `x` [..., columns]; see LayerNorm. `scale` and `shift` [columns] are
  /// float32. Replaces `statistics` by what the backward pass needs.
  virtual Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& shift,
                            float epsilon, Tensor& statistics) = 0;
  /// The gradient by `x`. Overwrites the gradients by scale and shift, float32 [columns].
  virtual Tensor layer_norm_backward(Tensor dy, const Tensor& x, const Tensor& scale,
                                     const Tensor& statistics, Tensor& scale_gradient,
                                     Tensor& shift_gradient) = 0;
  /// The row of `table` [vocabulary, width] of each of the int32 `tokens` [..., positions]. Adds
  /// row p of `position_table`, unless that is empty, to position p. Result: [..., positions,
  /// width]. Throws InvalidArgument for a token outside [0, vocabulary); a device sets its row to
  /// NaN.
  virtual Tensor embedding(const Tensor& tokens, const Tensor& table,
                           const Tensor& position_table) = 0;
  /// Overwrites the gradients by the tables. `position_gradient` is empty without such a table.
  virtual void embedding_backward(const Tensor& dy, const Tensor& tokens, Tensor& table_gradient,
                                  Tensor& position_gradient) = 0;
  /// Causal self-attention of `qkv`, with shapes as in AttentionShape. Replaces `kept` by what the
  /// backward pass needs besides the arguments and the result.
  virtual Tensor attention(const Tensor& qkv, const AttentionShape& shape, Tensor& kept) = 0;
  /// The gradient by `qkv`; `y` is the result of attention().
  virtual Tensor attention_backward(const Tensor& dy, const Tensor& y, const Tensor& qkv,
                                    const AttentionShape& shape, const Tensor& kept) = 0;

  /// `to` = `sum` + `values`, computed in float32. `sum` is float32, and `to` is either of the two.
  virtual void add_to(Tensor& to, const Tensor& sum, const Tensor& values) = 0;
  /// Cross-entropy of the softmax of `logits` [targets.count(), classes] and int32 classes.
  virtual void cross_entropy(const Tensor& logits, const Tensor& targets,
                             const CrossEntropyOptions& options, const LossArguments& to) = 0;
  /// The sum of (output - targets)^2. Both have the same number of values; targets are float32.
  virtual void squared_error(const Tensor& output, const Tensor& targets,
                             const LossArguments& to) = 0;

 private:
  const ImageFormat format_;
};

/// Host memory, float32 and oneDNN. Lives until the process ends. Thread-safe. Convolutional
/// networks are faster with channels last, because oneDNN then needs no copies between layouts and
/// batch normalisation, additions and ReLU are one pass. The trainer computes with it. Parameters
/// are the same in both: moving a model between them copies none.
Backend& cpu_backend(ImageLayout layout = ImageLayout::kChannelsFirst);

}  // namespace horo::ops
