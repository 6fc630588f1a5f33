#include <fmt/core.h>
#include <jerror.h>
#include <jpeglib.h>  // needs <cstdio>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <string>

#include "horo/base/error.h"
#include "ops/data/images/image_decoder.h"

namespace horo::ops {
namespace {

/// The error handler of a decoder. libjpeg is C code, so errors leave it with longjmp().
struct Errors {
  jpeg_error_mgr base;
  std::jmp_buf leave;
  std::array<char, JMSG_LENGTH_MAX> text;
};

[[noreturn]] void leave_with_error(j_common_ptr decoder) {
  auto* errors = reinterpret_cast<Errors*>(decoder->err);
  errors->base.format_message(decoder, errors->text.data());
  std::longjmp(errors->leave, 1);
}

// Missing data is only a warning of libjpeg, which then fills the image with grey.
void note_message(j_common_ptr decoder, int level) {
  const int code = decoder->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) leave_with_error(decoder);
}

// The largest reduction, as a denominator, that keeps both sides at least `least_side`.
unsigned reduction(const jpeg_decompress_struct& decoder, std::size_t least_side) {
  const std::size_t side = std::min(decoder.image_width, decoder.image_height);
  unsigned denominator = 1;
  while (least_side > 0 && denominator < 8 && side / (2 * denominator) >= least_side)
    denominator *= 2;
  return denominator;
}

// Returns false after an error. Has no objects with destructors, which longjmp() would skip: the
// image is of the caller.
bool decode(jpeg_decompress_struct& decoder, Errors& errors, std::span<const std::byte> file,
            std::size_t least_side, Image& image) {
  if (setjmp(errors.leave) != 0) return false;
  jpeg_create_decompress(&decoder);
  jpeg_mem_src(&decoder, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&decoder, TRUE);
  decoder.out_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  decoder.scale_num = 1;
  decoder.scale_denom = reduction(decoder, least_side);
  jpeg_start_decompress(&decoder);
  image.height = decoder.output_height;
  image.width = decoder.output_width;
  const std::size_t row_bytes = image.width * image.channels;
  image.pixels.resize(image.height * row_bytes);
  while (decoder.output_scanline < decoder.output_height) {
    JSAMPROW row = image.pixels.data() + decoder.output_scanline * row_bytes;
    jpeg_read_scanlines(&decoder, &row, 1);
  }
  jpeg_finish_decompress(&decoder);
  return true;
}

struct Decoder : jpeg_decompress_struct {
  Decoder() : jpeg_decompress_struct{} {}
  ~Decoder() { jpeg_destroy_decompress(this); }
};

}  // namespace

Image decode_jpeg(std::span<const std::byte> file, std::size_t channels, std::size_t least_side) {
  Errors errors{};
  Decoder decoder;
  decoder.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = leave_with_error;
  errors.base.emit_message = note_message;
  Image image{.channels = channels};
  if (!decode(decoder, errors, file, least_side, image))
    throw Error(fmt::format("the JPEG file is damaged: {}", errors.text.data()));
  return image;
}

}  // namespace horo::ops
