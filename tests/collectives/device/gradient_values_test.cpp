#include "collectives/device/gradient_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "collectives/device/fused_layout.h"
#include "tests/support/device_array.h"
#include "tests/support/device_under_test.h"

namespace horo::collectives {
namespace {

using device::DeviceArray;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr std::size_t kTensorSizes[] = {1, 8191, 8193, 3 * 8192 + 5, 300};

/// Tensors of one type in one array, from element `skip` on, and what the kernels find in them.
template <typename T>
class Examined {
 public:
  explicit Examined(std::size_t skip = 0) : values_(*device_, total() + skip) {
    std::size_t at = skip;
    std::uint64_t tile = 0;
    for (std::size_t t = 0; t < std::size(kTensorSizes); ++t) {
      starts_.push_back(at);
      views_.emplace_back(values_.data() + at, Shape{kTensorSizes[t]});
      at += kTensorSizes[t];
      const std::uint64_t end = tile + (kTensorSizes[t] + 8191) / 8192;
      tiles_.host()[t] = {tile, end, t == 4};
      tile = end;
    }
    for (std::size_t i = 0; i < values_.host().size(); ++i)
      values_.host()[i] = static_cast<T>(static_cast<float>(static_cast<int>(i % 13) - 6));
  }
  T& at(std::size_t tensor, std::size_t i) { return values_.host()[starts_[tensor] + i]; }

  GradientVerdict judge(double max_norm, bool scales = false) {
    values_.upload(*stream_);
    tiles_.upload(*stream_);
    const FusedLayout layout(views_, data_type_of<T>, std::numeric_limits<std::size_t>::max());
    EXPECT_EQ(layout.tables().size(), 1u);
    const TileTable& table = layout.tables().front();
    examine_tiles(*stream_, table, data_type_of<T>, of_tiles_.data());
    combine_tiles(*stream_, tiles_.data(), std::size(kTensorSizes), of_tiles_.data(),
                  of_tensors_.data());
    judge_gradients(*stream_, tiles_.data(), std::size(kTensorSizes), of_tensors_.data(),
                    of_tensors_.data(), max_norm, verdict_.data());
    if (scales)
      scale_by_verdict(*stream_, device_->full_grid(), table, data_type_of<T>, verdict_.data());
    verdict_.download(*stream_);
    values_.download(*stream_);
    stream_->synchronize();
    return verdict_.host()[0];
  }
  double norm() {
    double sum = 0;
    for (std::size_t t = 0; t < 4; ++t)
      for (std::size_t i = 0; i < kTensorSizes[t]; ++i) {
        const double value = static_cast<float>(at(t, i));
        sum += value * value;
      }
    return std::sqrt(sum);
  }

 private:
  static std::size_t total() {
    std::size_t sum = 0;
    for (const std::size_t size : kTensorSizes) sum += size;
    return sum;
  }

  const std::unique_ptr<device::Device> device_ = device::make_device();
  const std::unique_ptr<device::Stream> stream_ = device_->make_stream();
  DeviceArray<T> values_;
  DeviceArray<TilesOfTensor> tiles_{*device_, std::size(kTensorSizes)};
  DeviceArray<ValueFindings> of_tiles_{*device_, 16},
      of_tensors_{*device_, std::size(kTensorSizes)};
  DeviceArray<GradientVerdict> verdict_{*device_, 1};
  std::vector<std::size_t> starts_;
  std::vector<TensorView> views_;
};

template <typename T>
class GradientValues : public ::testing::Test {};
using Types = ::testing::Types<float, double, Float16, BFloat16>;
TYPED_TEST_SUITE(GradientValues, Types);

TYPED_TEST(GradientValues, MeasureNormWithoutMetrics) {
  for (const std::size_t skip : {0, 1}) {
    Examined<TypeParam> tensors(skip);
    const double norm = tensors.norm();
    const GradientVerdict verdict = tensors.judge(kNoLimit);
    EXPECT_NEAR(verdict.norm, norm, 1e-9 * norm);
    EXPECT_EQ(verdict.factor, 1);
    EXPECT_EQ(verdict.reduced.tensor, ValueFindings::kNone);
  }
}

TYPED_TEST(GradientValues, ScaleToLimit) {
  for (const std::size_t skip : {0, 1}) {
    Examined<TypeParam> tensors(skip);
    const double norm = tensors.norm();
    const TypeParam before = tensors.at(3, 17);
    const GradientVerdict verdict = tensors.judge(norm / 2, true);
    EXPECT_NEAR(verdict.factor, 0.5, 1e-9);
    EXPECT_NEAR(static_cast<float>(tensors.at(3, 17)), static_cast<float>(before) / 2, 1e-2);
    EXPECT_NEAR(tensors.norm(), norm / 2, 1e-3 * norm);
  }
}

TYPED_TEST(GradientValues, NameFirstNonFiniteValue) {
  const auto infinity = static_cast<TypeParam>(std::numeric_limits<float>::infinity());
  Examined<TypeParam> tensors;
  tensors.at(4, 299) = infinity;
  GradientVerdict verdict = tensors.judge(1, true);
  EXPECT_EQ(verdict.reduced.tensor, 4u) << "a metric must be finite too";
  EXPECT_EQ(verdict.reduced.index, 299u);
  EXPECT_EQ(verdict.factor, 1) << "non-finite gradients are not scaled";
  tensors.at(3, 3 * 8192 + 4) = static_cast<TypeParam>(std::nanf(""));
  tensors.at(3, 8192 + 77) = static_cast<TypeParam>(-std::numeric_limits<float>::infinity());
  tensors.at(3, 8192 + 78) = infinity;
  verdict = tensors.judge(1, true);
  EXPECT_EQ(verdict.own.tensor, 3u);
  EXPECT_EQ(verdict.own.index, 8192u + 77);
  EXPECT_EQ(verdict.own.value, -std::numeric_limits<double>::infinity());
}

TEST(GradientValuesOfDoubles, SquaresOfFiniteValuesMayOverflow) {
  Examined<double> tensors;
  tensors.at(2, 8192) = 1e200;
  const GradientVerdict verdict = tensors.judge(1, true);
  EXPECT_TRUE(std::isinf(verdict.norm));
  EXPECT_EQ(verdict.factor, 1);
  EXPECT_EQ(verdict.reduced.tensor, ValueFindings::kNone);
  EXPECT_EQ(tensors.at(2, 8192), 1e200);
}

}  // namespace
}  // namespace horo::collectives
