#include "ops/backend/device/norm/batch_norm.h"

#include <gtest/gtest.h>

#include <bit>

#include "horo/base/error.h"
#include "ops/backend/device/update/moments.h"
#include "tests/ops/backend/device/device_values.h"
#include "tests/ops/support/image_layouts.h"
#include "tests/ops/support/test_tensors.h"
#include "tests/support/reference_kernels/batch_norm.h"

namespace horo::ops::device_kernels {
namespace {

constexpr float kNormEpsilon = 1e-5f;
constexpr double kNormMomentum = 0.25;

Moments moments_of(std::span<const float> values) {
  Moments moments{};
  for (const float x : values) {
    moments.count += 1;
    add_value(moments.mean, moments.squares, x, 1 / moments.count);
  }
  return moments;
}

TEST(Moments, MatchTheTwoPassFormulaWithALargeMean) {
  auto values = varied_values(1001, 1);
  for (float& value : values) value += 1000;
  double mean = 0, squares = 0;
  for (const float x : values) mean += static_cast<double>(x) / 1001;
  for (const double x : in_double(values)) squares += (x - mean) * (x - mean);
  for (const std::size_t first : {0, 1, 500, 1000, 1001}) {
    const auto all = std::span<const float>(values);
    const Moments moments =
        Moments::combine(moments_of(all.first(first)), moments_of(all.subspan(first)));
    EXPECT_EQ(moments.count, 1001);
    EXPECT_NEAR(moments.mean, mean, 1e-3);
    EXPECT_NEAR(moments.variance(), squares / 1001, 1e-3 * squares / 1001);
    EXPECT_NEAR(moments.unbiased_variance(), squares / 1000, 1e-3 * squares / 1000);
  }
  EXPECT_EQ(Moments::combine(Moments{}, Moments{}).count, 0);
}

TEST(Moments, GradientsOfReluAndOfTheNormalisation) {
  EXPECT_EQ(relu(-1), 0);
  EXPECT_EQ(relu(2), 2);
  EXPECT_TRUE(std::isnan(relu(std::nanf(""))));
  EXPECT_EQ(relu_gradient(3, 0), 0);
  EXPECT_EQ(relu_gradient(3, 0.5f), 3);
  EXPECT_EQ((Normalisation{.mean = 1, .factor = 2, .shift = 3})(5), 11);
  const NormalisationGradient gradient{
      .mean = 1, .inverse = 0.5f, .factor = 4, .mean_gradient = 2, .mean_product = 3};
  EXPECT_EQ(gradient(7, 5), 4 * (7 - 2 - 4 * 0.5f * 3));
}

struct NormFusion {
  bool has_addend, has_relu;
};

// The arrays of one batch, in the order of the reference.
struct NormImages {
  ImageBatch images;
  NormFusion fusion;
  std::vector<float> x, addend, dy, scale, shift;

  template <typename T>
  static NormImages of(const ImageBatch& images, const NormFusion& fusion) {
    auto x = varied_values(images.count(), 1);
    for (float& value : x) value = 3 * value + 2;
    return {images,
            fusion,
            rounded<T>(x),
            rounded<T>(varied_values(images.count(), 2)),
            rounded<T>(varied_values(images.count(), 3)),
            varied_values(images.channels, 4),
            varied_values(images.channels, 5)};
  }
  reference::Values output(const reference::ChannelStatistics& statistics) const {
    auto y = reference::batch_norm(images, in_double(x), in_double(scale), in_double(shift),
                                   statistics, kNormEpsilon);
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (fusion.has_addend) y[i] += static_cast<double>(addend[i]);
      if (fusion.has_relu) y[i] = std::max(y[i], 0.0);
    }
    return y;
  }
  // The gradient by the sum of the normalised images and the addend.
  std::vector<float> before_relu(const std::vector<float>& y) const {
    std::vector<float> g = dy;
    for (std::size_t i = 0; i < g.size(); ++i)
      if (fusion.has_relu && y[i] <= 0) g[i] = 0;
    return g;
  }
};

template <typename T>
class BatchNormRun {
 public:
  BatchNormRun(const NormImages& inputs, ImageLayout layout, std::size_t skip)
      : inputs_(inputs), format_{data_type_of<T>, layout}, skip_(skip) {}

  void expect_training() {
    DeviceValues<float> running_mean = channels(0.5f), running_variance = channels(2.0f);
    const BatchNormTraining arrays{.input = x_.data(),
                                   .scale = scale_.data(),
                                   .shift = shift_.data(),
                                   .output = y_.data(),
                                   .running_mean = running_mean.data(),
                                   .running_variance = running_variance.data(),
                                   .momentum = kNormMomentum,
                                   .mean = mean_.data(),
                                   .inverse_deviation = inverse_.data(),
                                   .addend = inputs_.fusion.has_addend ? addend_.data() : nullptr,
                                   .has_relu = inputs_.fusion.has_relu};
    batch_norm_training(*test_.stream, inputs_.images, format_, arrays, kNormEpsilon,
                        workspace_.data());
    test_.stream->synchronize();
    const auto statistics = reference::channel_statistics(inputs_.images, in_double(inputs_.x));
    expect_close(in_reference_order(y_), inputs_.output(statistics), kTolerance);
    expect_close(mean_.values(), statistics.mean, 1e-5);
    const auto count =
        static_cast<double>(inputs_.images.count()) / static_cast<double>(inputs_.images.channels);
    reference::Values inverse, new_mean, new_variance;
    for (std::size_t c = 0; c < inputs_.images.channels; ++c) {
      inverse.push_back(1 / std::sqrt(statistics.variance[c] + static_cast<double>(kNormEpsilon)));
      new_mean.push_back(0.5 + kNormMomentum * (statistics.mean[c] - 0.5));
      new_variance.push_back(2 +
                             kNormMomentum * (statistics.variance[c] * count / (count - 1) - 2));
    }
    expect_close(inverse_.values(), inverse, 1e-5);
    expect_close(running_mean.values(), new_mean, 1e-5);
    expect_close(running_variance.values(), new_variance, 1e-5);
    expect_guards();
  }

  // After expect_training().
  void expect_gradients() {
    DeviceValues<float> dscale = channels(9), dshift = channels(9);
    batch_norm_backward(*test_.stream, inputs_.images, format_,
                        {.input = x_.data(),
                         .output_gradient = dy_.data(),
                         .scale = scale_.data(),
                         .mean = mean_.data(),
                         .inverse_deviation = inverse_.data(),
                         .input_gradient = dx_.data(),
                         .scale_gradient = dscale.data(),
                         .shift_gradient = dshift.data(),
                         .output = inputs_.fusion.has_relu ? y_.data() : nullptr,
                         .addend_gradient = inputs_.fusion.has_addend ? daddend_.data() : nullptr},
                        workspace_.data());
    test_.stream->synchronize();
    const auto g = inputs_.before_relu(in_reference_order(y_));
    const auto expected = reference::batch_norm_gradients(
        inputs_.images, in_double(inputs_.x), in_double(inputs_.scale), in_double(g), kNormEpsilon);
    expect_close(in_reference_order(dx_), expected.input, kTolerance);
    expect_close(dscale.values(), expected.scale, 1e-4);
    expect_close(dshift.values(), expected.shift, 1e-4);
    if (inputs_.fusion.has_addend) {
      EXPECT_EQ(in_reference_order(daddend_), g);
    }
    expect_guards();
  }

  void expect_inference() {
    const auto given = varied_values(inputs_.images.channels, 6);
    std::vector<float> positive = given;
    for (float& value : positive) value = 1.5f + value;
    DeviceValues<float> mean(test_.device, given, skip_), variance(test_.device, positive, skip_);
    batch_norm_inference(*test_.stream, inputs_.images, format_,
                         {.input = x_.data(),
                          .scale = scale_.data(),
                          .shift = shift_.data(),
                          .mean = mean.data(),
                          .variance = variance.data(),
                          .output = y_.data(),
                          .addend = inputs_.fusion.has_addend ? addend_.data() : nullptr,
                          .has_relu = inputs_.fusion.has_relu},
                         kNormEpsilon);
    test_.stream->synchronize();
    expect_close(in_reference_order(y_), inputs_.output({in_double(given), in_double(positive)}),
                 kTolerance);
    expect_guards();
  }

 private:
  static constexpr double kTolerance = sizeof(T) == 2 ? 2e-2 : 1e-4;

  DeviceValues<T> images(const std::vector<float>& values) {
    return {test_.device, laid_out(values, inputs_.images, format_.layout), skip_};
  }
  DeviceValues<float> channels(float value) {
    return {test_.device, std::vector<float>(inputs_.images.channels, value), skip_};
  }
  std::vector<float> in_reference_order(DeviceValues<T>& values) {
    return as_reference(values.values(), inputs_.images, format_.layout);
  }
  void expect_guards() {
    for (auto* values : {&x_, &addend_, &dy_, &y_, &dx_, &daddend_}) values->expect_guards();
    for (auto* values : {&scale_, &shift_, &mean_, &inverse_, &workspace_}) values->expect_guards();
  }

  TestDevice test_;
  NormImages inputs_;
  ImageFormat format_;
  std::size_t skip_;
  DeviceValues<T> x_ = images(inputs_.x), addend_ = images(inputs_.addend),
                  dy_ = images(inputs_.dy), y_ = images(inputs_.x), dx_ = images(inputs_.x),
                  daddend_ = images(inputs_.x);
  DeviceValues<float> scale_{test_.device, inputs_.scale, skip_},
      shift_{test_.device, inputs_.shift, skip_},
      mean_ = channels(0), inverse_ = channels(0),
      workspace_{test_.device,
                 std::vector<float>(batch_norm_workspace_bytes(inputs_.images, format_) / 4)};
};

template <typename T>
class DeviceBatchNormKernels : public testing::Test {};
using NormTypes = testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(DeviceBatchNormKernels, NormTypes);

// The shapes have one and several chunks, and one and several strips of channels; words fill rows
// or planes completely or not.
TYPED_TEST(DeviceBatchNormKernels, MatchReferenceWithAndWithoutFusion) {
  for (const ImageBatch& images :
       {ImageBatch{3, 5, 7, 5}, {2, 80, 5, 6}, {9, 16, 16, 16}, {40, 3, 12, 12}, {2, 1, 1, 1}})
    for (const auto layout : {ImageLayout::kChannelsFirst, ImageLayout::kChannelsLast})
      for (const NormFusion fusion :
           {NormFusion{false, false}, {false, true}, {true, false}, {true, true}})
        for (const std::size_t skip : {0, 1}) {
          SCOPED_TRACE(testing::Message()
                       << images.batch << " x " << images.channels << " x " << images.height
                       << " x " << images.width << ", channels "
                       << (layout == ImageLayout::kChannelsLast ? "last" : "first") << ", addend "
                       << fusion.has_addend << ", ReLU " << fusion.has_relu << ", skip " << skip);
          const auto inputs = NormImages::of<TypeParam>(images, fusion);
          BatchNormRun<TypeParam> run(inputs, layout, skip);
          run.expect_training();
          run.expect_gradients();
          run.expect_inference();
        }
}

TEST(DeviceBatchNormKernel, RefusesOtherTypes) {
  EXPECT_EQ(message_of<InvalidArgument>([] {
              batch_norm_workspace_bytes({1, 1, 2, 2}, {DataType::kFloat64});
            }),
            "batch normalisation of images of type float64; supported: float32, float16, bfloat16");
}

}  // namespace
}  // namespace horo::ops::device_kernels
