#include "ops/backend/pixels.h"

#include <fmt/format.h>

#include "horo/base/error.h"
#include "ops/backend/device/float_types.h"
#include "ops/backend/device/pixels.h"

namespace horo::ops {
namespace {

void normalise_on_host(const Tensor& pixels, std::span<const PixelScale> scales, Tensor& values) {
  const std::size_t plane = pixels.shape()[2] * pixels.shape()[3];
  for (std::size_t i = 0; i < pixels.shape()[0] * scales.size(); ++i)
    normalise_pixels(pixels.values<std::uint8_t>().subspan(i * plane, plane),
                     scales[i % scales.size()], values.values().subspan(i * plane, plane));
}

}  // namespace

Tensor normalised(Backend& backend, const Tensor& pixels, std::span<const PixelScale> scales) {
  const Shape& shape = pixels.shape();
  HORO_CHECK(pixels.type() == DataType::kUInt8 && shape.rank() == 4,
             fmt::format("{} of shape {} are no pixels; expected uint8 [batch, channels, height, "
                         "width]",
                         name_of(pixels.type()), shape.to_string()));
  HORO_CHECK(
      scales.size() == shape[1] && scales.size() <= device_kernels::kMostPixelChannels,
      fmt::format("{} scales of pixels for {} channels; expected one per channel, at most {}",
                  scales.size(), shape[1], device_kernels::kMostPixelChannels));
  Tensor values = backend.allocate(shape);
  device::Stream* const stream = backend.device_stream();
  if (stream == nullptr) {
    normalise_on_host(pixels, scales, values);
    return values;
  }
  const ImageBatch images{shape[0], shape[1], shape[2], shape[3]};
  device_kernels::visit_float_type(values.type(), "a tensor on a device", [&]<typename T>(T) {
    device_kernels::normalise_pixels(*stream, values.data<T>(), pixels.data<std::uint8_t>(), images,
                                     scales, backend.layout());
  });
  return values;
}

}  // namespace horo::ops
