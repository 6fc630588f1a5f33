#include "horo/device/float_conversion.h"
#include "horo/device/launch.h"
#include "ops/backend/device/pixels.h"

namespace horo::ops::device_kernels {
namespace {

// Each thread handles one pixel. In either layout, the threads of a warp access neighbouring
// addresses.
template <typename T>
struct NormalisePixels {
  static constexpr unsigned kThreads = 256;

  T* y;
  const std::uint8_t* x;
  std::size_t pixels;     // of all images
  std::size_t per_image;  // pixels of a channel
  unsigned channels;
  std::size_t channel_step, pixel_step;  // in y
  float factor[kMostPixelChannels], offset[kMostPixelChannels];

  HORO_KERNEL void operator()(const device::ThreadIndex& place) const {
    const std::size_t at = place.block * std::size_t{kThreads} + place.thread;
    if (at >= pixels) return;
    const std::size_t image = at / per_image, pixel = at % per_image;
    const std::size_t begin = image * channels * per_image;
    for (unsigned c = 0; c < channels; ++c) {
      const float value = static_cast<float>(x[begin + c * per_image + pixel]);
      y[begin + c * channel_step + pixel * pixel_step] =
          device::narrow<T>(value * factor[c] - offset[c]);
    }
  }
};

}  // namespace

template <typename T>
void normalise_pixels(device::Stream& stream, T* y, const std::uint8_t* x, const ImageBatch& images,
                      std::span<const PixelScale> scales, ImageLayout layout) {
  using Kernel = NormalisePixels<T>;
  const std::size_t per_image = images.height * images.width;
  const bool is_last = layout == ImageLayout::kChannelsLast;
  Kernel kernel{y,
                x,
                images.batch * per_image,
                per_image,
                static_cast<unsigned>(scales.size()),
                is_last ? 1 : per_image,
                is_last ? scales.size() : 1,
                {},
                {}};
  for (std::size_t c = 0; c < scales.size(); ++c) {
    kernel.factor[c] = scales[c].factor();
    kernel.offset[c] = scales[c].offset();
  }
  const auto blocks =
      static_cast<unsigned>((kernel.pixels + Kernel::kThreads - 1) / Kernel::kThreads);
  device::launch(stream, {blocks, Kernel::kThreads}, kernel);
}

template void normalise_pixels(device::Stream&, float*, const std::uint8_t*, const ImageBatch&,
                               std::span<const PixelScale>, ImageLayout);
template void normalise_pixels(device::Stream&, Float16*, const std::uint8_t*, const ImageBatch&,
                               std::span<const PixelScale>, ImageLayout);
template void normalise_pixels(device::Stream&, BFloat16*, const std::uint8_t*, const ImageBatch&,
                               std::span<const PixelScale>, ImageLayout);

}  // namespace horo::ops::device_kernels
