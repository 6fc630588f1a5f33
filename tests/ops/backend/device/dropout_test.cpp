#include "ops/backend/device/dropout.h"

#include "ops/backend/cpu/elementwise.h"
#include "tests/ops/backend/device/device_values.h"

namespace horo::ops::device_kernels {
namespace {

template <typename T>
void check_mask(std::size_t features, std::size_t skip, float probability) {
  TestDevice test;
  const std::vector<std::uint64_t> samples{5, 3, 1ull << 40, 6};
  const std::size_t count = samples.size() * features;
  const float factor = 1 / (1 - probability);
  std::vector<float> values = rounded<T>(varied_values(count, 1));
  for (float& value : values) value = value == 0 ? 1 : value;
  DeviceValues<T> x(test.device, values, skip);
  DeviceValues<T> y(test.device, std::vector<float>(count), skip);
  const DropoutDraw draw{0x123456789abcull, samples.data(), probability, factor};
  dropout(*test.stream, y.data(), x.data(), samples.size(), features, draw);
  dropout(*test.stream, x.data(), x.data(), samples.size(), features, draw);
  test.stream->synchronize();
  std::vector<std::uint8_t> kept(count);
  cpu::draw_dropout_mask(draw.key, samples, features, probability, kept);
  cpu::apply_dropout(values, kept, factor);
  EXPECT_EQ(y.values(), rounded<T>(values)) << features << " features";
  EXPECT_EQ(x.values(), y.values());
  x.expect_guards();
  y.expect_guards();
}

TEST(DeviceDropout, DrawsTheMaskOfTheCpu) {
  for (const std::size_t features : {1, 3, 4, 7, 8, 12, 64, 129, 1000})
    for (const std::size_t skip : {0, 1}) {
      check_mask<float>(features, skip, 0.3f);
      check_mask<Float16>(features, skip, 0.5f);
      check_mask<BFloat16>(features, skip, 0.1f);
    }
  check_mask<float>(20, 0, 0);
  check_mask<float>(20, 0, 0.999f);
}

}  // namespace
}  // namespace horo::ops::device_kernels
