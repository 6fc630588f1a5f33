// Products on a GPU against the reference.
#include "ops/backend/cuda/matmul.h"

#include <cmath>
#include <numbers>

#include "tests/ops/backend/cuda/gpu_values.h"
#include "tests/support/reference_kernels/inner_product.h"

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
      matmul.run(lt_,
                 {.left = input.data(),
                  .right = weights.data(),
                  .result = output.data(),
                  .bias = epilogue == Epilogue::kNone ? nullptr : bias.data()},
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
    MatmulOptions beside_others = options(Epilogue::kBiasGradient);
    beside_others.multiprocessors =
        multiprocessors_beside(lt_.multiprocessors() / 2, lt_.multiprocessors());
    Matmul by_weight(linear_backward_weight(shape), beside_others);
    by_weight.run(lt_,
                  {.left = gradient.data(),
                   .right = input.data(),
                   .result = dw.data(),
                   .bias_gradient = db.data()},
                  bench_.workspace(), *bench_.stream);
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

// The two products around an activation. The forward product of the first layer stores the values
// that the backward product of the second layer needs. The latter also sums the bias gradient of
// the first layer.
template <typename T>
class GpuActivation : public testing::Test {
 protected:
  struct Function {
    Epilogue forward, backward;
    double (*value)(double);
    double (*slope)(double);
  };
  static constexpr Function kRelu{Epilogue::kBiasReluKeep, Epilogue::kReluBiasGradient,
                                  [](double x) { return x > 0 ? x : 0.0; },
                                  [](double x) { return x > 0 ? 1.0 : 0.0; }};
  static constexpr Function kGelu{Epilogue::kBiasGeluKeep, Epilogue::kGeluBiasGradient, gelu,
                                  gelu_slope};

  /// Skips the check if cuBLASLt has no such products, unless `must` is set. The terms of a sum
  /// have errors of their own, so its tolerance grows with their magnitudes.
  void expect_both_ways(const Function& function, const InnerProductShape& first, std::size_t next,
                        bool must) {
    const InnerProductShape second{first.batch, first.out_features, next};
    const std::size_t count = first.batch * first.out_features;
    Matmul forward(linear_forward(first), {.type = type_of<T>(), .epilogue = function.forward});
    Matmul backward(linear_backward_input(second),
                    {.type = type_of<T>(), .epilogue = function.backward});
    const std::size_t workspace = bench_.workspace().size();
    const bool can = forward.can_run(lt_, workspace) && backward.can_run(lt_, workspace);
    EXPECT_TRUE(can || !must);
    if (!can) return;
    ASSERT_EQ(forward.kept_bytes(), backward.kept_bytes());

    const auto x = values_as<T>(first.batch * first.in_features, 1),
               w = values_as<T>(first.out_features * first.in_features, 2),
               b = values_as<T>(first.out_features, 3), dy = values_as<T>(first.batch * next, 4),
               v = values_as<T>(next * first.out_features, 5);
    const auto input = bench_.upload(x), weights = bench_.upload(w), bias = bench_.upload(b),
               gradient = bench_.upload(dy), next_weights = bench_.upload(v);
    const auto output = bench_.template unwritten<T>(count),
               back = bench_.template unwritten<T>(count),
               bias_back = bench_.template unwritten<T>(first.out_features);
    const auto kept = bench_.template unwritten<std::uint8_t>(forward.kept_bytes());
    forward.run(lt_,
                {.left = input.data(),
                 .right = weights.data(),
                 .result = output.data(),
                 .bias = bias.data(),
                 .kept = kept.data()},
                bench_.workspace(), *bench_.stream);
    backward.run(lt_,
                 {.left = gradient.data(),
                  .right = next_weights.data(),
                  .result = back.data(),
                  .bias_gradient = bias_back.data(),
                  .read_kept = kept.data()},
                 bench_.workspace(), *bench_.stream);

    const auto before =
        reference::inner_product(first, doubles_of(x), doubles_of(w), doubles_of(b));
    expect_close(floats_of(output.values(*bench_.stream)), mapped(before, function.value),
                 tolerance_of<T>(first.in_features));
    auto expected = reference::inner_product_gradients(second, reference::Values(count),
                                                       doubles_of(v), doubles_of(dy))
                        .input;
    reference::Values sums(first.out_features), magnitudes(first.out_features);
    for (std::size_t i = 0; i < count; ++i) {
      expected[i] *= function.slope(before[i]);
      sums[i % first.out_features] += expected[i];
      magnitudes[i % first.out_features] += std::abs(expected[i]);
    }
    const bool is_narrow = sizeof(T) == 2;
    const double tolerance = is_narrow ? 3e-2 : 1e-4, of_terms = is_narrow ? 1e-3 : 1e-6;
    expect_close(floats_of(back.values(*bench_.stream)), expected, tolerance);
    const std::vector<float> bias_sums = floats_of(bias_back.values(*bench_.stream));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      ASSERT_NEAR(bias_sums[i], sums[i],
                  tolerance * std::max(1.0, std::abs(sums[i])) + of_terms * magnitudes[i])
          << "feature " << i;
    }
  }

  GpuBench bench_;
  CublasLt lt_;
};
TYPED_TEST_SUITE(GpuActivation, Types);

TYPED_TEST(GpuActivation, MatchesReferenceInBothDirections) {
  const bool is_narrow = sizeof(TypeParam) == 2;
  for (const auto& function : {this->kRelu, this->kGelu}) {
    if (!is_narrow && function.forward == Epilogue::kBiasGeluKeep) continue;  // not used
    this->expect_both_ways(function, {128, 64, 256}, 64, is_narrow);
    this->expect_both_ways(function, {40, 16, 24}, 8, false);
    this->expect_both_ways(function, {64, 48, 136}, 16, false);
    this->expect_both_ways(function, {33, 40, 256}, 10, false);
  }
  for (const std::size_t batch : {1, 7, 17}) {
    this->expect_both_ways(this->kRelu, {batch, 33, 9}, 5, false);
    this->expect_both_ways(this->kRelu, {batch, 9, 131}, 3, false);
    this->expect_both_ways(this->kRelu, {batch, 24, 136}, 8, false);
  }
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
