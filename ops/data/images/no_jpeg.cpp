#include "horo/base/error.h"
#include "ops/data/images/image_decoder.h"

namespace horo::ops {

Image decode_jpeg(std::span<const std::byte>, std::size_t, std::size_t) {
  throw InvalidArgument(
      "this horo was built without libjpeg; install libjpeg-dev and build it again");
}

}  // namespace horo::ops
