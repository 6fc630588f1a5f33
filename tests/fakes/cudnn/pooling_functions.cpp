// The functions of cuDNN that compute pooling.
#include <cudnn.h>

#include <cmath>
#include <limits>

#include "tests/fakes/cuda/library_call.h"
#include "tests/fakes/cudnn/objects.h"

namespace horo::fakes::dnn {
namespace {

struct Pooling {
  cudnnPoolingStruct::Pooling kind;
  Tensor images, output;

  bool has_maximum() const { return kind.mode == CUDNN_POOLING_MAX_DETERMINISTIC; }
};

Pooling described(const LibraryCall& call, const char* name, cudnnPoolingDescriptor_t pooling,
                  cudnnTensorDescriptor_t images, cudnnTensorDescriptor_t output) {
  const Pooling p{value_of(name, pooling), value_of(name, images), value_of(name, output)};
  call.require(p.images.type == p.output.type, "the tensors have different types");
  call.require(p.output.extents == p.kind.window.output(p.images.extents, p.images.extents[1]),
               "the output does not have the extents that the window gives");
  return p;
}

/// Calls function(place of the output, places of the images) for each window, without padding, with
/// places in arrays of the order of the extents.
template <typename Function>
void for_each_window(const Pooling& p, Function function) {
  const auto [batch, channels, rows, columns] = p.output.extents;
  const std::int64_t height = p.images.extents[2], width = p.images.extents[3];
  const Window& window = p.kind.window;
  std::size_t place = 0;
  std::vector<std::size_t> under;
  for (std::int64_t plane = 0; plane < batch * channels; ++plane)
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t column = 0; column < columns; ++column) {
        under.clear();
        for (std::int64_t ky = 0; ky < window.size[0]; ++ky)
          for (std::int64_t kx = 0; kx < window.size[1]; ++kx) {
            const std::int64_t y = row * window.stride[0] + ky - window.padding[0];
            const std::int64_t x = column * window.stride[1] + kx - window.padding[1];
            if (y >= 0 && y < height && x >= 0 && x < width)
              under.push_back(static_cast<std::size_t>((plane * height + y) * width + x));
          }
        function(place++, under);
      }
}

float largest(const std::vector<float>& images, const std::vector<std::size_t>& under) {
  float value = -std::numeric_limits<float>::infinity();
  for (const std::size_t at : under)
    if (images[at] > value || std::isnan(images[at])) value = images[at];
  return value;
}

float average(const std::vector<float>& images, const std::vector<std::size_t>& under) {
  float sum = 0;
  for (const std::size_t at : under) sum += images[at];
  return sum / static_cast<float>(under.size());
}

std::vector<float> forward(const Pooling& p, const std::vector<float>& images) {
  std::vector<float> output(p.output.count());
  for_each_window(p, [&](std::size_t place, const std::vector<std::size_t>& under) {
    output[place] = p.has_maximum() ? largest(images, under) : average(images, under);
  });
  return output;
}

// The first of equal largest pixels gets the gradient.
std::vector<float> backward(const Pooling& p, const std::vector<float>& images,
                            const std::vector<float>& output, const std::vector<float>& gradient) {
  std::vector<float> result(p.images.count());
  for_each_window(p, [&](std::size_t place, const std::vector<std::size_t>& under) {
    for (const std::size_t at : under) {
      if (!p.has_maximum()) {
        result[at] += gradient[place] / static_cast<float>(under.size());
      } else if (images[at] == output[place] || std::isnan(images[at])) {
        result[at] += gradient[place];
        break;
      }
    }
  });
  return result;
}

}  // namespace
}  // namespace horo::fakes::dnn

using namespace horo::fakes;       // NOLINT
using namespace horo::fakes::dnn;  // NOLINT

extern "C" {

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling,
                                  const void* alpha, const cudnnTensorDescriptor_t images,
                                  const void* x, const void* beta,
                                  const cudnnTensorDescriptor_t output, void* y) {
  const char* const name = "cudnnPoolingForward";
  LibraryCall call(name, contexts().get(name, handle)->stream);
  const Pooling p = described(call, name, pooling, images, output);
  const std::size_t alignment = size_of(p.images.element());
  call.read("x", x, p.images.bytes(), alignment);
  call.write("y", y, p.output.bytes(), alignment);
  call.submit([p, x, y, factor = *static_cast<const float*>(alpha),
               old = *static_cast<const float*>(beta)] {
    p.output.store(y, forward(p, p.images.load(x)), factor, old);
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling,
                                   const void* alpha, const cudnnTensorDescriptor_t output,
                                   const void* y, const cudnnTensorDescriptor_t output_gradient,
                                   const void* dy, const cudnnTensorDescriptor_t images,
                                   const void* x, const void* beta,
                                   const cudnnTensorDescriptor_t images_gradient, void* dx) {
  const char* const name = "cudnnPoolingBackward";
  LibraryCall call(name, contexts().get(name, handle)->stream);
  const Pooling p = described(call, name, pooling, images, output);
  const Pooling gradients = described(call, name, pooling, images_gradient, output_gradient);
  const std::size_t alignment = size_of(p.images.element());
  call.read("y", y, p.output.bytes(), alignment);
  call.read("dy", dy, gradients.output.bytes(), alignment);
  call.read("x", x, p.images.bytes(), alignment);
  call.write("dx", dx, gradients.images.bytes(), alignment);
  call.submit(
      [=, factor = *static_cast<const float*>(alpha), old = *static_cast<const float*>(beta)] {
        gradients.images.store(
            dx, backward(p, p.images.load(x), p.output.load(y), gradients.output.load(dy)), factor,
            old);
      });
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
