#include <fmt/core.h>
#include <png.h>

#include "horo/base/error.h"
#include "ops/data/images/image_decoder.h"

namespace horo::ops {

Image decode_png(std::span<const std::byte> file, std::size_t channels) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  const auto check = [&](int is_done) {
    if (is_done != 0) return;
    const std::string reason = png.message;
    png_image_free(&png);
    throw Error(fmt::format("the PNG file is damaged: {}", reason));
  };
  check(png_image_begin_read_from_memory(&png, file.data(), file.size()));
  png.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  Image image{png.height, png.width, channels, {}};
  try {
    image.pixels.resize(PNG_IMAGE_SIZE(png));
  } catch (...) {
    png_image_free(&png);
    throw;
  }
  const png_color black{0, 0, 0};
  check(png_image_finish_read(&png, &black, image.pixels.data(), 0, nullptr));
  return image;
}

}  // namespace horo::ops
