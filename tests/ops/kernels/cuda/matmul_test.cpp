// Products on a GPU against the reference.
#include "ops/kernels/cuda/matmul.h"

#include <cmath>
#include <numbers>

#include "ops/kernels/reference/inner_product.h"
#include "tests/ops/kernels/cuda/gpu_values.h"

namespace horo::ops::cuda {
namespace {

double gelu(double x) {
  const double root = std::sqrt(2 / std::numbers::pi);
  return 0.5 * x * (1 + std::tanh(root * (x + 0.044715 * x * x * x)));
}

double gelu_slope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

template <typename Function>
reference::Values mapped(reference::Values values, Function function) {
  for (double& value : values) value = function(value);
  return values;
}

template <typename T>
class GpuLinear : public testing::Test {
 protected:
  static MatmulOptions options(Epilogue epilogue) {
    return {.type = type_of<T>(), .epilogue = epilogue};
  }

  void expect_forward(const InnerProductShape& shape) {
    const auto x = values_as<T>(shape.batch * shape.in_features, 1);
    const auto w = values_as<T>(shape.out_features * shape.in_features, 2);
    const auto b = values_as<T>(shape.out_features, 3);
    const auto input = bench_.upload(x), weights = bench_.upload(w), bias = bench_.upload(b);
    const auto output = bench_.template unwritten<T>(shape.batch * shape.out_features);
    const double tolerance = tolerance_of<T>(shape.in_features);
    const auto run = [&](Epilogue epilogue) {
      Matmul matmul(linear_forward(shape), options(epilogue));
      void* const vector = epilogue == Epilogue::kNone ? nullptr : bias.data();
      matmul.run(lt_, {input.data(), weights.data(), output.data(), vector, nullptr},
                 bench_.workspace(), *bench_.stream);
      return floats_of(output.values(*bench_.stream));
    };
    const auto plain = reference::inner_product(shape, doubles_of(x), doubles_of(w), doubles_of(b));
    const reference::Values zeros(b.size());
    expect_close(run(Epilogue::kNone),
                 reference::inner_product(shape, doubles_of(x), doubles_of(w), zeros), tolerance);
    expect_close(run(Epilogue::kBias), plain, tolerance);
    expect_close(run(Epilogue::kBiasRelu), mapped(plain, [](double y) { return std::max(0.0, y); }),
                 tolerance);
    expect_close(run(Epilogue::kBiasGelu), mapped(plain, gelu), tolerance);
  }

  void expect_gradients(const InnerProductShape& shape) {
    const auto x = values_as<T>(shape.batch * shape.in_features, 1);
    const auto w = values_as<T>(shape.out_features * shape.in_features, 2);
    const auto dy = values_as<T>(shape.batch * shape.out_features, 3);
    const auto expected =
        reference::inner_product_gradients(shape, doubles_of(x), doubles_of(w), doubles_of(dy));
    const auto input = bench_.upload(x), weights = bench_.upload(w), gradient = bench_.upload(dy);
    const auto dx = bench_.template unwritten<T>(x.size());
    Matmul by_input(linear_backward_input(shape), options(Epilogue::kNone));
    by_input.run(lt_, {gradient.data(), weights.data(), dx.data()}, bench_.workspace(),
                 *bench_.stream);
    expect_close(floats_of(dx.values(*bench_.stream)), expected.input,
                 tolerance_of<T>(shape.out_features));
    const auto dw = bench_.template unwritten<T>(w.size());
    const auto db = bench_.template unwritten<T>(shape.out_features);
    Matmul by_weight(linear_backward_weight(shape), options(Epilogue::kBiasGradient));
    by_weight.run(lt_, {gradient.data(), input.data(), dw.data(), db.data()}, bench_.workspace(),
                  *bench_.stream);
    expect_close(floats_of(dw.values(*bench_.stream)), expected.weights,
                 tolerance_of<T>(shape.batch));
    expect_close(floats_of(db.values(*bench_.stream)), expected.bias, tolerance_of<T>(shape.batch));
  }

  GpuBench bench_;
  CublasLt lt_;
};

using Types = testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(GpuLinear, Types);

TYPED_TEST(GpuLinear, ForwardMatchesReference) {
  for (const std::size_t batch : {1, 7, 64, 129}) {
    this->expect_forward({batch, 64, 128});
    this->expect_forward({batch, 24, 8});
  }
  this->expect_forward({33, 784, 1000});
}

TYPED_TEST(GpuLinear, GradientsMatchReference) {
  for (const std::size_t batch : {8, 64, 136}) {
    this->expect_gradients({batch, 64, 128});
    this->expect_gradients({batch, 24, 8});
  }
}

// Rows of an odd number of elements are not aligned.
TEST(GpuLinearOddShapes, ForwardMatchesReferenceInFloat32) {
  GpuBench bench;
  const CublasLt lt;
  for (const InnerProductShape& shape :
       {InnerProductShape{1, 1, 1}, {3, 5, 7}, {17, 33, 9}, {129, 31, 10}}) {
    const auto x = values_as<float>(shape.batch * shape.in_features, 1);
    const auto w = values_as<float>(shape.out_features * shape.in_features, 2);
    const auto b = values_as<float>(shape.out_features, 3);
    const auto input = bench.upload(x), weights = bench.upload(w), bias = bench.upload(b);
    const auto output = bench.unwritten<float>(shape.batch * shape.out_features);
    Matmul matmul(linear_forward(shape), {.epilogue = Epilogue::kBias});
    matmul.run(lt, {input.data(), weights.data(), output.data(), bias.data()}, bench.workspace(),
               *bench.stream);
    expect_close(output.values(*bench.stream),
                 reference::inner_product(shape, doubles_of(x), doubles_of(w), doubles_of(b)),
                 1e-5);
  }
}

// As the two layers around a GELU use it: the first keeps what went in, the second goes back
// through it.
TEST(GpuGelu, ForwardKeepsWhatTheGradientNeeds) {
  GpuBench bench;
  const CublasLt lt;
  const InnerProductShape first{40, 16, 24};
  const auto x = values_as<BFloat16>(40 * 16, 1), w = values_as<BFloat16>(24 * 16, 2),
             b = values_as<BFloat16>(24, 3);
  const auto input = bench.upload(x), weights = bench.upload(w), bias = bench.upload(b);
  const auto output = bench.unwritten<BFloat16>(40 * 24), kept = bench.unwritten<BFloat16>(40 * 24);
  Matmul forward(linear_forward(first),
                 {.type = DataType::kBFloat16, .epilogue = Epilogue::kBiasGeluKeep});
  forward.run(lt, {input.data(), weights.data(), output.data(), bias.data(), kept.data()},
              bench.workspace(), *bench.stream);
  const auto before = reference::inner_product(first, doubles_of(x), doubles_of(w), doubles_of(b));
  expect_close(floats_of(kept.values(*bench.stream)), before, 1e-2);
  expect_close(floats_of(output.values(*bench.stream)), mapped(before, gelu), 1e-2);

  const InnerProductShape second{40, 24, 8};
  const auto dy = values_as<BFloat16>(40 * 8, 4), v = values_as<BFloat16>(8 * 24, 5);
  const auto gradient = bench.upload(dy), second_weights = bench.upload(v);
  const auto back = bench.unwritten<BFloat16>(40 * 24);
  Matmul backward(linear_backward_input(second),
                  {.type = DataType::kBFloat16, .epilogue = Epilogue::kGeluGradient});
  backward.run(lt, {gradient.data(), second_weights.data(), back.data(), nullptr, kept.data()},
               bench.workspace(), *bench.stream);
  auto expected = reference::inner_product_gradients(second, reference::Values(40 * 24),
                                                     doubles_of(v), doubles_of(dy))
                      .input;
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= gelu_slope(before[i]);
  expect_close(floats_of(back.values(*bench.stream)), expected, 3e-2);
}

TEST(GpuMatmul, GivesTheSameBitsEveryTime) {
  GpuBench bench;
  const CublasLt lt;
  const auto a = bench.upload(values_as<float>(257 * 1000, 1));
  const auto b = bench.upload(values_as<float>(1000 * 65, 2));
  const auto run = [&] {
    const auto result = bench.unwritten<float>(257 * 65);
    Matmul matmul({257, 65, 1000});
    matmul.run(lt, {a.data(), b.data(), result.data()}, bench.workspace(), *bench.stream);
    return result.values(*bench.stream);
  };
  EXPECT_EQ(run(), run());
}

}  // namespace
}  // namespace horo::ops::cuda
