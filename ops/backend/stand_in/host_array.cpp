#include "ops/backend/stand_in/host_array.h"

#include "horo/base/float16.h"
#include "ops/backend/device/float_types.h"

namespace horo::ops {
namespace {

/// Calls use(index in the array, index in the order of the CPU kernels) for each value.
template <typename Use>
void for_each_value(const HostArray& array, Use use) {
  std::size_t there = 0;
  for (std::size_t n = 0; n < array.batch; ++n)
    for (std::size_t c = 0; c < array.channels; ++c)
      for (std::size_t p = 0; p < array.pixels; ++p, ++there)
        use(array.is_channels_last ? (n * array.pixels + p) * array.channels + c : there, there);
}

}  // namespace

std::vector<float> read(const HostArray& array, const void* data) {
  std::vector<float> values(array.count());
  device_kernels::visit_float_type(array.type, "an array of the stand-in", [&]<typename T>(T) {
    for_each_value(array, [&](std::size_t here, std::size_t there) {
      values[there] = static_cast<float>(static_cast<const T*>(data)[here]);
    });
  });
  return values;
}

// Values of 16 bits are rounded only here, because the CPU kernels compute in float32.
void write(const HostArray& array, const std::vector<float>& values, void* data) {
  device_kernels::visit_float_type(array.type, "an array of the stand-in", [&]<typename T>(T) {
    for_each_value(array, [&](std::size_t here, std::size_t there) {
      static_cast<T*>(data)[here] = static_cast<T>(values[there]);
    });
  });
}

}  // namespace horo::ops
