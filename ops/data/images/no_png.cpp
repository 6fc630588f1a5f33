#include "horo/base/error.h"
#include "ops/data/images/image_decoder.h"

namespace horo::ops {

Image decode_png(std::span<const std::byte>, std::size_t) {
  throw InvalidArgument(
      "this horo was built without libpng; install libpng-dev and build it again");
}

}  // namespace horo::ops
