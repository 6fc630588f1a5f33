#include "ops/backend/pixels.h"

#include <fmt/format.h>

#include <vector>

#include "horo/base/error.h"
#include "ops/backend/device/float_types.h"
#include "ops/backend/device/pixels.h"
#include "ops/tensor/source_pixel.h"

namespace horo::ops {
namespace {

void normalise_on_host(const Tensor& pixels, std::span<const PixelScale> scales, Tensor& values,
                       const ImageCrop* crops) {
  const std::size_t height = pixels.shape()[2], width = pixels.shape()[3], plane = height * width;
  std::vector<std::uint8_t> cropped(plane);
  for (std::size_t i = 0; i < pixels.shape()[0] * scales.size(); ++i) {
    const PixelScale& scale = scales[i % scales.size()];
    auto source = pixels.values<std::uint8_t>().subspan(i * plane, plane);
    if (crops != nullptr) {
      for (std::size_t at = 0; at < plane; ++at) {
        const std::size_t from = source_pixel(crops[i / scales.size()], height, width, at);
        cropped[at] = from < plane ? source[from] : padding_pixel(scale);
      }
      source = cropped;
    }
    normalise_pixels(source, scale, values.values().subspan(i * plane, plane));
  }
}

const ImageCrop* crops_of(const Tensor* crops, std::size_t images) {
  if (crops == nullptr) return nullptr;
  HORO_CHECK(crops->type() == DataType::kInt32 && crops->shape() == (Shape{images, 3}),
             fmt::format("{} of shape {} are no crops of {} images; expected int32 [{}, 3]",
                         name_of(crops->type()), crops->shape().to_string(), images, images));
  return reinterpret_cast<const ImageCrop*>(crops->raw());
}

}  // namespace

Tensor normalised(Backend& backend, const Tensor& pixels, std::span<const PixelScale> scales,
                  const Tensor* crops) {
  const Shape& shape = pixels.shape();
  HORO_CHECK(pixels.type() == DataType::kUInt8 && shape.rank() == 4,
             fmt::format("{} of shape {} are no pixels; expected uint8 [batch, channels, height, "
                         "width]",
                         name_of(pixels.type()), shape.to_string()));
  HORO_CHECK(
      scales.size() == shape[1] && scales.size() <= device_kernels::kMostPixelChannels,
      fmt::format("{} scales of pixels for {} channels; expected one per channel, at most {}",
                  scales.size(), shape[1], device_kernels::kMostPixelChannels));
  const ImageCrop* const crop = crops_of(crops, shape[0]);
  Tensor values = backend.allocate(shape);
  device::Stream* const stream = backend.device_stream();
  if (stream == nullptr) {
    normalise_on_host(pixels, scales, values, crop);
    return values;
  }
  const ImageBatch images{shape[0], shape[1], shape[2], shape[3]};
  device_kernels::visit_float_type(values.type(), "a tensor on a device", [&]<typename T>(T) {
    device_kernels::normalise_pixels(*stream, values.data<T>(), pixels.data<std::uint8_t>(), images,
                                     crop, scales, backend.layout());
  });
  return values;
}

}  // namespace horo::ops
