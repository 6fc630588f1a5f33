#include <cstdint>
#include <utility>
#include <vector>

#include "ops/backend/backend.h"
#include "ops/backend/cpu/attention.h"
#include "ops/backend/cpu/elementwise.h"
#include "ops/backend/cpu/embedding.h"
#include "ops/backend/cpu/layer_norm.h"
#include "ops/backend/cpu/losses.h"

namespace horo::ops {
namespace {

/// Returns memory with the values of `x` that the caller may overwrite.
Tensor writable(Tensor x) { return x.is_unique() ? std::move(x) : x.clone(); }

/// Exchanges the rows and columns of each of the matrices [batch][rows, columns].
Tensor transposed(const Tensor& x, std::size_t batch, std::size_t rows, std::size_t columns) {
  Tensor y(x.shape());
  cpu::transpose(x.values(), batch, rows, columns, y.values());
  return y;
}

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(ImageLayout layout)
      : Backend({DataType::kFloat32, layout}), operations_(make_cpu_operations()) {}

  Operations& operations() override { return *operations_; }
  // With channels first, no kernel computes several layers.
  bool fuses_layers() const override { return layout() == ImageLayout::kChannelsLast; }

  Tensor allocate(Shape shape, DataType type) override { return Tensor(std::move(shape), type); }
  Tensor from_host(Tensor host) override { return host; }
  Tensor to_host(const Tensor& own) override { return own.shared(); }
  Tensor in_own_order(Tensor x, DataType) override {
    const Shape& shape = x.shape();
    if (!is_reordered(shape)) return x;
    return transposed(x, shape[0], shape[1], shape[2] * shape[3]);
  }
  Tensor in_host_order(Tensor x, DataType) override {
    const Shape& shape = x.shape();
    if (!is_reordered(shape)) return x;
    return transposed(x, shape[0], shape[2] * shape[3], shape[1]);
  }
  Tensor converted(const Tensor& x, DataType) override { return x.clone(); }

  Tensor relu(Tensor x) override {
    Tensor y = writable(std::move(x));
    cpu::relu_forward(y.values());
    return y;
  }
  Tensor add_relu(Tensor a, const Tensor& b) override {
    Tensor y = writable(std::move(a));
    cpu::add_relu_forward(y.values(), b.values());
    return y;
  }
  Tensor relu_backward(Tensor dy, const Tensor& y) override {
    Tensor dx = writable(std::move(dy));
    cpu::relu_backward(dx.values(), y.values());
    return dx;
  }
  Tensor add_relu_backward(Tensor a, const Tensor& b, const Tensor& y) override {
    Tensor dx = writable(std::move(a));
    cpu::add_relu_backward(dx.values(), b.values(), y.values());
    return dx;
  }
  Tensor add(Tensor a, const Tensor& b) override {
    Tensor sum = writable(std::move(a));
    cpu::add(std::as_const(sum).values(), b.values(), sum.values());
    return sum;
  }
  Tensor gelu(const Tensor& x) override {
    Tensor y = x.clone();
    cpu::gelu_forward(y.values());
    return y;
  }
  Tensor gelu_backward(Tensor dy, const Tensor& x) override {
    Tensor dx = writable(std::move(dy));
    cpu::gelu_backward(dx.values(), x.values());
    return dx;
  }
  // Features are counted in host order, in which the mask is drawn.
  Tensor dropout(Tensor x, const device_kernels::DropoutDraw& draw, Tensor& mask) override {
    Tensor y = writable(in_host_order(std::move(x), DataType::kFloat32));
    const std::size_t rows = y.shape()[0];
    if (mask.count() == 0) {
      mask = Tensor(y.shape(), DataType::kUInt8);
      cpu::draw_dropout_mask(draw.key, {draw.samples, rows}, y.count() / rows,
                             draw.drop_probability, mask.values<std::uint8_t>());
    }
    cpu::apply_dropout(y.values(), std::as_const(mask).values<std::uint8_t>(), draw.factor);
    return in_own_order(std::move(y), DataType::kFloat32);
  }

  Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, float epsilon,
                    Tensor& statistics) override {
    statistics = Tensor({2, x.count() / scale.count()});
    Tensor y(x.shape());
    cpu::layer_norm_forward(x.values(), scale.values(), shift.values(), epsilon, y.values(),
                            statistics.values());
    return y;
  }
  Tensor layer_norm_backward(Tensor dy, const Tensor& x, const Tensor& scale,
                             const Tensor& statistics, Tensor& scale_gradient,
                             Tensor& shift_gradient) override {
    Tensor dx = writable(std::move(dy));
    cpu::layer_norm_backward(std::as_const(dx).values(), x.values(), scale.values(),
                             statistics.values(), dx.values(), scale_gradient.values(),
                             shift_gradient.values());
    return dx;
  }
  Tensor embedding(const Tensor& tokens, const Tensor& table,
                   const Tensor& position_table) override {
    std::vector<std::size_t> dimensions = tokens.shape().dimensions();
    const std::size_t period = dimensions.back(), width = table.shape()[1];
    dimensions.push_back(width);
    Tensor y{Shape(std::move(dimensions))};
    cpu::embedding_forward(tokens.values<std::int32_t>(), table.values(), position_table.values(),
                           period, width, y.values());
    return y;
  }
  void embedding_backward(const Tensor& dy, const Tensor& tokens, Tensor& table_gradient,
                          Tensor& position_gradient) override {
    const Shape& shape = dy.shape();
    cpu::embedding_backward(tokens.values<std::int32_t>(), dy.values(), shape[shape.rank() - 2],
                            shape[shape.rank() - 1], table_gradient.values(),
                            position_gradient.values());
  }
  Tensor attention(const Tensor& qkv, const AttentionShape& shape, Tensor& kept) override {
    Tensor y({shape.batch, shape.positions, shape.width()});
    kept = Tensor({shape.rows(), shape.positions});
    cpu::attention_forward(shape, qkv.values(), y.values(), kept.values());
    return y;
  }
  Tensor attention_backward(const Tensor& dy, const Tensor&, const Tensor& qkv,
                            const AttentionShape& shape, const Tensor& kept) override {
    Tensor dqkv(qkv.shape());
    cpu::attention_backward(shape, dy.values(), qkv.values(), kept.values(), dqkv.values());
    return dqkv;
  }

  void add_to(Tensor& to, const Tensor& sum, const Tensor& values) override {
    cpu::add(sum.values(), values.values(), to.values());
  }
  void cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options, const LossArguments& to) override {
    store(cpu::softmax_cross_entropy(logits.values(), targets.values<std::int32_t>(),
                                     logits.count() / targets.count(), to.normaliser,
                                     gradient_of(to), options),
          to);
  }
  void squared_error(const Tensor& output, const Tensor& targets,
                     const LossArguments& to) override {
    store(cpu::squared_error(output.values(), targets.values(), to.normaliser, gradient_of(to)),
          to);
  }

 private:
  /// Whether the order of the elements of images of this shape differs from host order.
  bool is_reordered(const Shape& shape) const {
    return layout() == ImageLayout::kChannelsLast && shape.rank() == 4 && shape[1] > 1 &&
           shape[2] * shape[3] > 1;
  }
  static std::span<float> gradient_of(const LossArguments& to) {
    HORO_CHECK(to.loss_scale == nullptr, "a loss scale is for training on a device");
    return to.gradient == nullptr ? std::span<float>() : to.gradient->values();
  }
  static void store(const BatchScore& score, const LossArguments& to) {
    *to.score = score;
    if (to.loss != nullptr) *to.loss = static_cast<float>(score.loss);
  }

  std::unique_ptr<Operations> operations_;
};

}  // namespace

// Leaked, so that layers of static storage may use them until the process ends.
Backend& cpu_backend(ImageLayout layout) {
  static Backend& channels_first = *new CpuBackend(ImageLayout::kChannelsFirst);
  static Backend& channels_last = *new CpuBackend(ImageLayout::kChannelsLast);
  return layout == ImageLayout::kChannelsLast ? channels_last : channels_first;
}

}  // namespace horo::ops
