// Normalisation of pixels.
#include "ops/backend/pixels.h"

#include <cstdint>
#include <vector>

#include "horo/device/host/host_device.h"
#include "ops/backend/device/device_backend.h"
#include "tests/ops/backend/device/device_values.h"

namespace horo::ops {
namespace {

const std::vector<PixelScale> kScales{{0.5f, 0.25f}, {0.1f, 0.7f}, {0.9f, 0.3f}};

Tensor pixels_of(const ImageBatch& images) {
  Tensor pixels(Shape{images.batch, images.channels, images.height, images.width},
                DataType::kUInt8);
  for (std::size_t i = 0; i < pixels.count(); ++i)
    pixels.values<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 89 + i / 256);
  return pixels;
}

double expected_at(const Tensor& pixels, std::size_t at, std::size_t plane) {
  const PixelScale& scale = kScales[at / plane % pixels.shape()[1]];
  return (pixels.values<std::uint8_t>()[at] / 255.0 - static_cast<double>(scale.mean)) /
         static_cast<double>(scale.deviation);
}

void check_normalised(Backend& backend, const Tensor& on_host, const Tensor& pixels,
                      double tolerance) {
  const std::size_t plane = on_host.shape()[2] * on_host.shape()[3];
  const Tensor own = normalised(backend, pixels, std::span(kScales).first(on_host.shape()[1]));
  EXPECT_EQ(own.type(), backend.type());
  const Tensor values = backend.to_host(own);
  ASSERT_EQ(values.shape(), on_host.shape());
  for (std::size_t i = 0; i < values.count(); ++i)
    EXPECT_NEAR(values.values()[i], expected_at(on_host, i, plane), tolerance) << i;
}

TEST(NormalisedPixels, AgreeOnHostAndDevice) {
  for (const ImageBatch& images :
       {ImageBatch{1, 1, 1, 1}, {3, 3, 5, 7}, {2, 3, 32, 32}, {5, 2, 17, 1}}) {
    const Tensor pixels = pixels_of(images);
    check_normalised(cpu_backend(), pixels, pixels, 1e-5);
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
      device::HostDevice device;
      DeviceBackend backend(device, type);
      Tensor uploaded = backend.allocate(pixels.shape(), DataType::kUInt8);
      const device::Memory staging = device.allocate_pinned(pixels.bytes());
      std::copy_n(pixels.raw(), pixels.bytes(), staging.data());
      backend.stream().copy(uploaded.raw(), staging.data(), pixels.bytes());
      check_normalised(backend, pixels, uploaded, type == DataType::kFloat32 ? 1e-5 : 0.02);
      backend.stream().synchronize();
    }
  }
}

TEST(NormalisedPixels, RejectOtherTensors) {
  const std::vector<PixelScale> two(2);
  EXPECT_THROW(normalised(cpu_backend(), Tensor(Shape{1, 2, 3, 3}), two), InvalidArgument);
  EXPECT_THROW(normalised(cpu_backend(), pixels_of({1, 3, 2, 2}), two), InvalidArgument);
  EXPECT_THROW(normalised(cpu_backend(), Tensor(Shape{2, 9}, DataType::kUInt8), two),
               InvalidArgument);
}

}  // namespace
}  // namespace horo::ops
