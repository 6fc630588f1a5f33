#pragma once

#include <jpeglib.h>  // needs <cstdio>
#include <png.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "ops/data/images/image_decoder.h"

namespace horo::ops {

/// The bytes of a PNG file.
inline std::string png_bytes(const Image& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  png_image_write_get_memory_size(png, size, 0, image.pixels.data(), 0, nullptr);
  std::string bytes(size, '\0');
  png_image_write_to_memory(&png, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr);
  return bytes.substr(0, size);
}

/// The bytes of a JPEG file of high quality.
inline std::string jpeg_bytes(const Image& image) {
  jpeg_error_mgr errors;
  jpeg_compress_struct encoder{};
  encoder.err = jpeg_std_error(&errors);
  jpeg_create_compress(&encoder);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&encoder, &memory, &size);
  encoder.image_width = static_cast<JDIMENSION>(image.width);
  encoder.image_height = static_cast<JDIMENSION>(image.height);
  encoder.input_components = static_cast<int>(image.channels);
  encoder.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&encoder);
  jpeg_set_quality(&encoder, 98, TRUE);
  jpeg_start_compress(&encoder, TRUE);
  while (encoder.next_scanline < encoder.image_height) {
    auto* row = const_cast<JSAMPLE*>(image.pixels.data()) +
                encoder.next_scanline * image.width * image.channels;
    jpeg_write_scanlines(&encoder, &row, 1);
  }
  jpeg_finish_compress(&encoder);
  jpeg_destroy_compress(&encoder);
  const std::string bytes(reinterpret_cast<const char*>(memory), size);
  std::free(memory);
  return bytes;
}

}  // namespace horo::ops
