#include "ops/nn/device/host_activated_linear.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "horo/base/device/host_device.h"
#include "ops/kernels/cpu/gelu.h"
#include "ops/kernels/cpu/inner_product.h"
#include "ops/kernels/cpu/relu.h"
#include "ops/nn/device/host_array.h"

namespace horo::ops {
namespace {

/// A bit for each value, in rows of cuBLASLt's length.
struct Bits {
  std::size_t rows, columns;

  std::size_t row_bytes() const { return (columns + 127) / 128 * 16; }
  std::size_t bytes() const { return rows * row_bytes(); }
  void write(const std::vector<std::uint8_t>& values, std::uint8_t* to) const {
    std::fill_n(to, bytes(), std::uint8_t{0});
    for (std::size_t i = 0; i < values.size(); ++i)
      to[byte_of(i)] = static_cast<std::uint8_t>(to[byte_of(i)] | values[i] << i % columns % 8);
  }
  std::vector<std::uint8_t> read(const std::uint8_t* from) const {
    std::vector<std::uint8_t> values(rows * columns);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<std::uint8_t>(from[byte_of(i)] >> i % columns % 8 & 1);
    return values;
  }

 private:
  std::size_t byte_of(std::size_t i) const { return i / columns * row_bytes() + i % columns / 8; }
};

/// What work on the stream needs, which may come to it after the operation has gone.
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
        std::vector<std::uint8_t> passed(y.size());
        cpu::relu_forward(y, passed);
        if (kept != nullptr) state->bits.write(passed, static_cast<std::uint8_t*>(kept));
      }
      write(state->output, y, output);
    });
  }

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

}  // namespace

std::unique_ptr<ActivatedOperation> make_host_activated_linear(device::Stream& stream,
                                                               const ActivatedShape& shape,
                                                               DataType type) {
  const bool fits = shape.activation != Activation::kGelu || shape.linear.out_features % 8 == 0;
  if (!fits || shape.linear.batch == 1) return nullptr;
  return std::make_unique<HostActivatedLinear>(stream, shape, type);
}

}  // namespace horo::ops
