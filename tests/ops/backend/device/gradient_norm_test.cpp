#include "ops/backend/device/update/gradient_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <limits>

#include "horo/base/error.h"
#include "tests/ops/backend/device/device_values.h"

namespace horo::ops::device_kernels {
namespace {

constexpr float kInfiniteNorm = std::numeric_limits<float>::infinity();

template <typename T>
class Gradients {
 public:
  Gradients(std::initializer_list<std::size_t> sizes, std::size_t skip = 0) {
    std::uint32_t seed = 0;
    for (const std::size_t size : sizes)
      tensors_.emplace_back(device_.device, varied_values(size, ++seed), skip);
  }
  T& at(std::size_t tensor, std::size_t i) { return tensors_[tensor].data()[i]; }
  double norm() {
    double sum = 0;
    for (auto& tensor : tensors_)
      for (const double x : tensor.values()) sum += x * x;
    return std::sqrt(sum);
  }
  GradientVerdict measure(const GradientMeasure& how = {}) {
    std::vector<GradientTensor> list;
    for (auto& tensor : tensors_) list.push_back({tensor.data(), tensor.count()});
    std::vector<double> sums(count_partial_sums(list), std::nan(""));
    GradientVerdict verdict{-1, -1, 7};
    measure_gradients(*device_.stream, list, data_type_of<T>, sums, &verdict, how);
    device_.stream->synchronize();
    return verdict;
  }

 private:
  TestDevice device_;
  std::deque<DeviceValues<T>> tensors_;
};

template <typename T>
void check_norm() {
  for (const std::size_t skip : {0, 1}) {
    Gradients<T> gradients({1, 0, 8191, 8192, 8193, 3, 40000}, skip);
    const GradientVerdict verdict = gradients.measure({.scale = 0.25f});
    EXPECT_NEAR(verdict.norm, 0.25 * gradients.norm(), 1e-12 * gradients.norm());
    EXPECT_EQ(verdict.factor, 1);
    EXPECT_EQ(verdict.skip, 0u);
  }
}

TEST(GradientNorm, CoversAllTensors) {
  check_norm<float>();
  check_norm<Float16>();
  check_norm<BFloat16>();
}

TEST(GradientNorm, HasTheSameBitsForEveryGradientType) {
  TestDevice device;
  DeviceValues<BFloat16> narrow(device.device, varied_values(20001, 4));
  std::vector<float> thirds = narrow.values();
  for (float& x : thirds) x *= 1.0f / 3;
  DeviceValues<float> wide(device.device, thirds);
  const auto norm_of = [&](const GradientGroup& group) {
    std::vector<double> sums(count_partial_sums(group.tensors));
    GradientVerdict verdict{};
    measure_gradients(*device.stream, std::span(&group, 1), sums, &verdict);
    device.stream->synchronize();
    return verdict.norm;
  };
  const GradientTensor of_narrow{narrow.data(), narrow.count()}, of_wide{wide.data(), wide.count()};
  EXPECT_EQ(norm_of({DataType::kBFloat16, std::span(&of_narrow, 1), 1.0f / 3}),
            norm_of({DataType::kFloat32, std::span(&of_wide, 1)}));
}

TEST(GradientNorm, IsZeroWithoutTensors) {
  const GradientVerdict verdict = Gradients<float>({}).measure();
  EXPECT_EQ(verdict.norm, 0);
  EXPECT_EQ(verdict.factor, 1);
  EXPECT_EQ(verdict.skip, 0u);
}

TEST(GradientNorm, SplitsManyTensorsIntoLaunches) {
  TestDevice device;
  std::vector<float> values = varied_values(3 * 5000, 8);
  std::vector<GradientTensor> list;
  double sum = 0;
  for (std::size_t t = 0; t < 5000; ++t) list.push_back({values.data() + 3 * t, 3});
  for (const double x : values) sum += x * x;
  std::vector<double> sums(count_partial_sums(list));
  GradientVerdict verdict{};
  measure_gradients(*device.stream, list, DataType::kFloat32, sums, &verdict);
  device.stream->synchronize();
  EXPECT_NEAR(verdict.norm, std::sqrt(sum), 1e-9);
}

TEST(GradientNorm, ClipsToTheGivenNorm) {
  Gradients<float> gradients({100, 9000});
  EXPECT_EQ(gradients.measure({.max_norm = 1e6f}).factor, 1);
  const GradientVerdict verdict = gradients.measure({.scale = 2, .max_norm = 3});
  EXPECT_NEAR(verdict.factor * 2 * gradients.norm(), 3, 1e-5);
  EXPECT_NEAR(verdict.norm, 2 * gradients.norm(), 1e-9);
}

TEST(GradientNorm, HugeButFiniteGradientsAreFinite) {
  Gradients<float> gradients({20000});
  for (std::size_t i = 0; i < 20000; ++i) gradients.at(0, i) = 3e38f;
  const GradientVerdict verdict = gradients.measure({.max_norm = 1});
  EXPECT_EQ(verdict.skip, 0u);
  EXPECT_NEAR(verdict.norm, 3e38 * std::sqrt(20000), 1e34);
  EXPECT_GT(verdict.factor, 0);
}

template <typename T>
void check_not_finite(std::size_t skip) {
  for (const float bad : {kInfiniteNorm, -kInfiniteNorm, std::nanf("")})
    for (const auto& [tensor, index] :
         {std::pair{0, 0}, {1, 0}, {1, 4099}, {1, 8191}, {1, 8192}, {2, 1}, {2, 4}}) {
      Gradients<T> gradients({1, 8193, 5}, skip);
      gradients.at(static_cast<std::size_t>(tensor), static_cast<std::size_t>(index)) =
          static_cast<T>(bad);
      const GradientVerdict verdict = gradients.measure({.max_norm = 1});
      EXPECT_EQ(verdict.skip, 1u) << bad << " in " << tensor << " at " << index;
      EXPECT_FALSE(std::isfinite(verdict.norm));
      EXPECT_EQ(verdict.factor, 1);
    }
}

TEST(GradientNorm, FindsNonFiniteValues) {
  for (const std::size_t skip : {0, 1}) {
    check_not_finite<float>(skip);
    check_not_finite<Float16>(skip);
    check_not_finite<BFloat16>(skip);
  }
}

TEST(GradientNorm, ChecksTheExtraValueForFiniteness) {
  Gradients<float> gradients({100});
  for (const float loss : {2.5f, kInfiniteNorm, std::nanf("")}) {
    const GradientVerdict verdict = gradients.measure({.max_norm = 1e-3f, .also = &loss});
    EXPECT_EQ(verdict.skip, std::isfinite(loss) ? 0u : 1u);
    EXPECT_NEAR(verdict.norm, gradients.norm(), 1e-9);
  }
}

TEST(GradientNorm, LossScaleFollowsOverflows) {
  LossScale loss{.scale = 1024, .good_steps = 0};
  const GradientMeasure how{.loss_scale = &loss, .growth_interval = 3};
  Gradients<Float16> gradients({1000});
  const GradientVerdict first = gradients.measure(how);
  EXPECT_EQ(first.factor, 1.0f / 1024);
  EXPECT_NEAR(first.norm, gradients.norm() / 1024, 1e-9);
  gradients.measure(how);
  EXPECT_EQ(loss.scale, 1024);
  EXPECT_EQ(loss.good_steps, 2u);
  EXPECT_EQ(gradients.measure(how).factor, 1.0f / 1024);  // grows afterwards
  EXPECT_EQ(loss.scale, 2048);
  gradients.measure(how);
  const Float16 kept = gradients.at(0, 5);
  gradients.at(0, 5) = static_cast<Float16>(kInfiniteNorm);
  EXPECT_EQ(gradients.measure(how).skip, 1u);
  EXPECT_EQ(loss.scale, 1024);
  EXPECT_EQ(loss.good_steps, 0u);
  gradients.at(0, 5) = kept;
  EXPECT_EQ(gradients.measure(how).skip, 0u);
  EXPECT_EQ(loss.good_steps, 1u);
}

TEST(GradientNorm, RefusesTooFewSumsAndOtherTypes) {
  TestDevice device;
  const std::vector<GradientTensor> list{{nullptr, 9000}};
  std::vector<double> sums(2);
  GradientVerdict verdict{};
  EXPECT_THROW(measure_gradients(*device.stream, list, DataType::kFloat32, std::span(sums).first(1),
                                 &verdict),
               InvalidArgument);
  EXPECT_THROW(measure_gradients(*device.stream, list, DataType::kInt8, sums, &verdict),
               InvalidArgument);
}

TEST(GradientNorm, CombinesAllTypes) {
  TestDevice device;
  DeviceValues<float> plain(device.device, varied_values(9000, 1));
  DeviceValues<BFloat16> narrow(device.device, varied_values(20000, 2));
  const GradientTensor tensors[] = {{plain.data(), plain.count()}, {narrow.data(), narrow.count()}};
  const GradientGroup groups[] = {{DataType::kFloat32, std::span(tensors).first(1)},
                                  {DataType::kFloat16, {}},
                                  {DataType::kBFloat16, std::span(tensors).last(1), 0.5f}};
  double squares = 0;
  for (const double x : plain.values()) squares += x * x;
  for (const double x : narrow.values()) squares += x * x / 4;
  std::vector<double> sums(count_partial_sums(tensors));
  GradientVerdict verdict{};
  measure_gradients(*device.stream, groups, sums, &verdict, {.max_norm = 1});
  device.stream->synchronize();
  EXPECT_NEAR(verdict.norm, std::sqrt(squares), 1e-9 * std::sqrt(squares));
  EXPECT_FLOAT_EQ(verdict.factor, static_cast<float>(1 / std::sqrt(squares)));
  EXPECT_THROW(measure_gradients(*device.stream, groups, std::span(sums).first(3), &verdict),
               InvalidArgument);
}

}  // namespace
}  // namespace horo::ops::device_kernels
