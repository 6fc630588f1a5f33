#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "ops/backend/backend.h"
#include "ops/backend/cpu/elementwise.h"
#include "ops/backend/cpu/losses.h"

namespace horo::ops {
namespace {

/// Returns memory with the values of `x` that the caller may overwrite.
Tensor writable(Tensor x) { return x.is_unique() ? std::move(x) : x.clone(); }

class CpuBackend : public Backend {
 public:
  CpuBackend()
      : Backend({DataType::kFloat32, ImageLayout::kChannelsFirst}),
        operations_(make_cpu_operations()) {}

  Operations& operations() override { return *operations_; }
  // Fused groups pay off where a kernel has a cost of its own to launch.
  bool fuses_layers() const override { return false; }

  Tensor allocate(Shape shape, DataType type) override { return Tensor(std::move(shape), type); }
  Tensor from_host(Tensor host) override { return host; }
  Tensor to_host(const Tensor& own) override { return own.shared(); }
  Tensor in_own_order(Tensor x, DataType) override { return x; }
  Tensor in_host_order(Tensor x, DataType) override { return x; }
  Tensor converted(const Tensor& x, DataType) override { return x.clone(); }

  Tensor relu(Tensor x) override {
    Tensor y = writable(std::move(x));
    cpu::relu_forward(y.values());
    return y;
  }
  Tensor add_relu(Tensor a, const Tensor& b) override { return relu(add(std::move(a), b)); }
  Tensor relu_backward(Tensor dy, const Tensor& y) override {
    Tensor dx = writable(std::move(dy));
    cpu::relu_backward(dx.values(), y.values());
    return dx;
  }
  Tensor add_relu_backward(Tensor a, const Tensor& b, const Tensor& y) override {
    return relu_backward(add(std::move(a), b), y);
  }
  Tensor add(Tensor a, const Tensor& b) override {
    Tensor sum = writable(std::move(a));
    std::ranges::transform(sum.values(), b.values(), sum.data(), std::plus<>());
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
  Tensor dropout(Tensor x, const device_kernels::DropoutDraw& draw, Tensor& mask) override {
    Tensor y = writable(std::move(x));
    const std::size_t rows = y.shape()[0];
    if (mask.count() == 0) {
      mask = Tensor(y.shape(), DataType::kUInt8);
      cpu::draw_dropout_mask(draw.key, {draw.samples, rows}, y.count() / rows,
                             draw.drop_probability, mask.values<std::uint8_t>());
    }
    cpu::apply_dropout(y.values(), std::as_const(mask).values<std::uint8_t>(), draw.factor);
    return y;
  }

  void add_to(Tensor& to, const Tensor& sum, const Tensor& values) override {
    std::ranges::transform(sum.values(), values.values(), to.data(), std::plus<>());
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
  static std::span<float> gradient_of(const LossArguments& to) {
    return to.gradient == nullptr ? std::span<float>() : to.gradient->values();
  }
  static void store(const BatchScore& score, const LossArguments& to) {
    *to.score = score;
    if (to.loss != nullptr) *to.loss = static_cast<float>(score.loss);
  }

  std::unique_ptr<Operations> operations_;
};

}  // namespace

// Leaked, so that layers of static storage may use it until the process ends.
Backend& cpu_backend() {
  static Backend& backend = *new CpuBackend();
  return backend;
}

}  // namespace horo::ops
