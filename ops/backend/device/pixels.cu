#include "horo/device/float_conversion.h"
#include "horo/device/launch.h"
#include "ops/backend/device/pixels.h"
#include "ops/tensor/source_pixel.h"

namespace horo::ops::device_kernels {
namespace {

// Each thread handles one pixel. In either layout, the threads of a warp access neighbouring
// addresses.
template <typename T>
struct NormalisePixels {
  static constexpr unsigned kThreads = 256;

  T* y;
  const std::uint8_t* x;
  const ImageCrop* crops;  // null: none
  std::size_t pixels;      // of all images
  std::size_t height, width;
  unsigned channels;
  std::size_t channel_step, pixel_step;  // in y
  float factor[kMostPixelChannels], offset[kMostPixelChannels];
  std::uint8_t padding[kMostPixelChannels];

  HORO_KERNEL void operator()(const device::ThreadIndex& place) const {
    const std::size_t at = place.block * std::size_t{kThreads} + place.thread;
    if (at >= pixels) return;
    const std::size_t per_image = height * width;
    const std::size_t image = at / per_image, pixel = at % per_image;
    const std::size_t begin = image * channels * per_image;
    const std::size_t source =
        crops == nullptr ? pixel : source_pixel(crops[image], height, width, pixel);
    for (unsigned c = 0; c < channels; ++c) {
      const std::uint8_t read = source < per_image ? x[begin + c * per_image + source] : padding[c];
      const auto value = static_cast<float>(read);
      y[begin + c * channel_step + pixel * pixel_step] =
          device::narrow<T>(value * factor[c] - offset[c]);
    }
  }
};

}  // namespace

template <typename T>
void normalise_pixels(device::Stream& stream, T* y, const std::uint8_t* x, const ImageBatch& images,
                      const ImageCrop* crops, std::span<const PixelScale> scales,
                      ImageLayout layout) {
  using Kernel = NormalisePixels<T>;
  const std::size_t per_image = images.height * images.width;
  const bool is_last = layout == ImageLayout::kChannelsLast;
  Kernel kernel{y,
                x,
                crops,
                images.batch * per_image,
                images.height,
                images.width,
                static_cast<unsigned>(scales.size()),
                is_last ? 1 : per_image,
                is_last ? scales.size() : 1,
                {},
                {},
                {}};
  for (std::size_t c = 0; c < scales.size(); ++c) {
    kernel.factor[c] = scales[c].factor();
    kernel.offset[c] = scales[c].offset();
    kernel.padding[c] = padding_pixel(scales[c]);
  }
  const auto blocks =
      static_cast<unsigned>((kernel.pixels + Kernel::kThreads - 1) / Kernel::kThreads);
  device::launch(stream, {blocks, Kernel::kThreads}, kernel);
}

template void normalise_pixels(device::Stream&, float*, const std::uint8_t*, const ImageBatch&,
                               const ImageCrop*, std::span<const PixelScale>, ImageLayout);
template void normalise_pixels(device::Stream&, Float16*, const std::uint8_t*, const ImageBatch&,
                               const ImageCrop*, std::span<const PixelScale>, ImageLayout);
template void normalise_pixels(device::Stream&, BFloat16*, const std::uint8_t*, const ImageBatch&,
                               const ImageCrop*, std::span<const PixelScale>, ImageLayout);

}  // namespace horo::ops::device_kernels
