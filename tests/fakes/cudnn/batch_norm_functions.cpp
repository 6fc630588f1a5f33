// The functions of cuDNN that compute batch normalisation.
#include <cudnn.h>

#include <cmath>

#include "tests/fakes/cuda/library_call.h"
#include "tests/fakes/cudnn/objects.h"

namespace horo::fakes::dnn {
namespace {

/// The values of one batch of images, by their channel.
struct Channels {
  explicit Channels(const Tensor& images)
      : count(static_cast<std::size_t>(images.extents[1])),
        plane(static_cast<std::size_t>(images.extents[2] * images.extents[3])),
        values(images.count()) {}

  std::size_t count, plane, values;
  std::size_t of(std::size_t place) const { return place / plane % count; }
  /// The number of values in each channel.
  double size() const { return static_cast<double>(values / count); }
  /// The sums over each channel of function(place).
  template <typename Function>
  std::vector<double> sums(Function function) const {
    std::vector<double> all(count);
    for (std::size_t i = 0; i < values; ++i) all[of(i)] += static_cast<double>(function(i));
    return all;
  }
};

/// Adds the checks that the functions share.
struct BatchNormCall : LibraryCall {
  BatchNormCall(const char* name, cudnnHandle_t handle, cudnnBatchNormMode_t mode,
                cudnnTensorDescriptor_t images_descriptor, cudnnTensorDescriptor_t channels,
                double epsilon)
      : LibraryCall(name, contexts().get(name, handle)->stream),
        images(value_of(name, images_descriptor)),
        values(value_of(name, channels)),
        name_(name) {
    require(mode == CUDNN_BATCHNORM_SPATIAL, "the fake supports CUDNN_BATCHNORM_SPATIAL only");
    require(
        values.type == CUDNN_DATA_FLOAT && values.extents == Extents{1, images.extents[1], 1, 1},
        "the parameters are not float32 with one value for each channel");
    require(epsilon >= CUDNN_BN_MIN_EPSILON, "epsilon is too small");
  }
  void require_same_images(cudnnTensorDescriptor_t descriptor) const {
    const Tensor other = value_of(name_, descriptor);
    require(other.type == images.type && other.extents == images.extents &&
                other.strides == images.strides,
            "the images have different types, extents or strides");
  }
  void require_blend(const void* alpha, const void* beta) const {
    require(*static_cast<const float*>(alpha) == 1 && *static_cast<const float*>(beta) == 0,
            "the fake supports alpha 1 and beta 0 only");
  }
  void read_images(const char* what, const void* data) {
    read(what, data, images.bytes(), size_of(images.element()));
  }
  void write_images(const char* what, const void* data) {
    write(what, data, images.bytes(), size_of(images.element()));
  }
  void read_values(const char* what, const void* data) { read(what, data, values.bytes(), 4); }
  void write_values(const char* what, const void* data) { write(what, data, values.bytes(), 4); }

  const Tensor images, values;

 private:
  const char* name_;
};

double inverse_deviation(double variance, double epsilon) {
  return 1 / std::sqrt(variance + epsilon);
}

/// scale * (x - mean) * inverse + shift
std::vector<float> normalised(const Channels& channels, std::vector<float> x, const float* scale,
                              const float* shift, const std::vector<double>& mean,
                              const std::vector<double>& inverse) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = channels.of(i);
    x[i] = static_cast<float>((static_cast<double>(x[i]) - mean[c]) * inverse[c]) * scale[c] +
           shift[c];
  }
  return x;
}

void blend(float& running, double factor, double value) {
  running = static_cast<float>((1 - factor) * static_cast<double>(running) + factor * value);
}

struct Training {
  Tensor images;
  const void* x;
  void* y;
  const float *scale, *shift;
  double momentum, epsilon;
  float *running_mean, *running_variance, *saved_mean, *saved_inverse;

  void operator()() const {
    const std::vector<float> input = images.load(x);
    const Channels channels(images);
    auto mean = channels.sums([&](std::size_t i) { return input[i]; });
    for (double& value : mean) value /= channels.size();
    auto variance = channels.sums([&](std::size_t i) {
      const double distance = static_cast<double>(input[i]) - mean[channels.of(i)];
      return distance * distance;
    });
    std::vector<double> inverse;
    for (std::size_t c = 0; c < channels.count; ++c) {
      const double sum = variance[c];
      inverse.push_back(inverse_deviation(sum / channels.size(), epsilon));
      if (running_mean != nullptr) {
        blend(running_mean[c], momentum, mean[c]);
        blend(running_variance[c], momentum, sum / (channels.size() - 1));
      }
      if (saved_mean != nullptr) {
        saved_mean[c] = static_cast<float>(mean[c]);
        saved_inverse[c] = static_cast<float>(inverse[c]);
      }
    }
    images.store(y, normalised(channels, input, scale, shift, mean, inverse));
  }
};

struct Backward {
  Tensor images;
  const void *x, *dy;
  void* dx;
  const float* scale;
  float *scale_gradient, *shift_gradient;
  const float *mean, *inverse;

  void operator()() const {
    const std::vector<float> input = images.load(x), gradient = images.load(dy);
    const Channels channels(images);
    const auto normal = [&](std::size_t i) {
      const std::size_t c = channels.of(i);
      return static_cast<double>((input[i] - mean[c]) * inverse[c]);
    };
    const auto shifts = channels.sums([&](std::size_t i) { return gradient[i]; });
    const auto scales =
        channels.sums([&](std::size_t i) { return static_cast<double>(gradient[i]) * normal(i); });
    std::vector<float> result(input.size());
    for (std::size_t i = 0; i < result.size(); ++i) {
      const std::size_t c = channels.of(i);
      const double own =
          static_cast<double>(gradient[i]) - (shifts[c] + normal(i) * scales[c]) / channels.size();
      result[i] = scale[c] * inverse[c] * static_cast<float>(own);
    }
    images.store(dx, result);
    for (std::size_t c = 0; c < channels.count; ++c) {
      shift_gradient[c] = static_cast<float>(shifts[c]);
      scale_gradient[c] = static_cast<float>(scales[c]);
    }
  }
};

const float* floats(const void* data) { return static_cast<const float*>(data); }
float* floats(void* data) { return static_cast<float*>(data); }

}  // namespace
}  // namespace horo::fakes::dnn

using namespace horo::fakes;       // NOLINT
using namespace horo::fakes::dnn;  // NOLINT

extern "C" {

cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const cudnnTensorDescriptor_t input, const void* x, const cudnnTensorDescriptor_t output,
    void* y, const cudnnTensorDescriptor_t values, const void* scale, const void* shift,
    double momentum, void* running_mean, void* running_variance, double epsilon, void* saved_mean,
    void* saved_inverse) {
  BatchNormCall call("cudnnBatchNormalizationForwardTraining", handle, mode, input, values,
                     epsilon);
  call.require_same_images(output);
  call.require_blend(alpha, beta);
  call.require(momentum >= 0 && momentum <= 1, "the factor of the averages is not in [0, 1]");
  call.require((running_mean == nullptr) == (running_variance == nullptr) &&
                   (saved_mean == nullptr) == (saved_inverse == nullptr),
               "one of two arrays is null");
  if (x != y) call.read_images("x", x);
  call.write_images("y", y);
  call.read_values("scale", scale);
  call.read_values("bias", shift);
  for (void* const array : {running_mean, running_variance, saved_mean, saved_inverse})
    if (array != nullptr) call.write_values("statistics", array);
  call.submit(Training{call.images, x, y, floats(scale), floats(shift), momentum, epsilon,
                       floats(running_mean), floats(running_variance), floats(saved_mean),
                       floats(saved_inverse)});
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const cudnnTensorDescriptor_t input, const void* x, const cudnnTensorDescriptor_t output,
    void* y, const cudnnTensorDescriptor_t values, const void* scale, const void* shift,
    const void* mean, const void* variance, double epsilon) {
  BatchNormCall call("cudnnBatchNormalizationForwardInference", handle, mode, input, values,
                     epsilon);
  call.require_same_images(output);
  call.require_blend(alpha, beta);
  if (x != y) call.read_images("x", x);
  call.write_images("y", y);
  for (const void* const array : {scale, shift, mean, variance})
    call.read_values("parameters", array);
  call.submit([=, images = call.images] {
    const Channels channels(images);
    std::vector<double> means, inverses;
    for (std::size_t c = 0; c < channels.count; ++c) {
      means.push_back(static_cast<double>(floats(mean)[c]));
      inverses.push_back(inverse_deviation(static_cast<double>(floats(variance)[c]), epsilon));
    }
    images.store(
        y, normalised(channels, images.load(x), floats(scale), floats(shift), means, inverses));
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha_images,
    const void* beta_images, const void* alpha_values, const void* beta_values,
    const cudnnTensorDescriptor_t input, const void* x, const cudnnTensorDescriptor_t gradient,
    const void* dy, const cudnnTensorDescriptor_t result, void* dx,
    const cudnnTensorDescriptor_t values, const void* scale, void* scale_gradient,
    void* shift_gradient, double epsilon, const void* mean, const void* inverse) {
  BatchNormCall call("cudnnBatchNormalizationBackward", handle, mode, input, values, epsilon);
  call.require_same_images(gradient);
  call.require_same_images(result);
  call.require_blend(alpha_images, beta_images);
  call.require_blend(alpha_values, beta_values);
  call.read_images("x", x);
  if (dx != dy) call.read_images("dy", dy);
  call.write_images("dx", dx);
  for (const void* const array : {scale, mean, inverse}) call.read_values("parameters", array);
  call.write_values("the gradient of the scale", scale_gradient);
  call.write_values("the gradient of the bias", shift_gradient);
  call.submit(Backward{call.images, x, dy, dx, floats(scale), floats(scale_gradient),
                       floats(shift_gradient), floats(mean), floats(inverse)});
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
