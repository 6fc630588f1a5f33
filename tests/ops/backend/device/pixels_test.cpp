// Normalisation of pixels.
#include "ops/backend/pixels.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "horo/device/host/host_device.h"
#include "ops/backend/device/device_backend.h"
#include "ops/tensor/image_crop.h"
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

Tensor upload(DeviceBackend& backend, const Tensor& tensor) {
  Tensor uploaded = backend.allocate(tensor.shape(), tensor.type());
  const device::Memory staging = backend.device().allocate_pinned(tensor.bytes());
  std::copy_n(tensor.raw(), tensor.bytes(), staging.data());
  backend.stream().copy(uploaded.raw(), staging.data(), tensor.bytes());
  backend.stream().synchronize();
  return uploaded;
}

TEST(NormalisedPixels, AgreeOnHostAndDevice) {
  for (const ImageBatch& images :
       {ImageBatch{1, 1, 1, 1}, {3, 3, 5, 7}, {2, 3, 32, 32}, {5, 2, 17, 1}}) {
    const Tensor pixels = pixels_of(images);
    check_normalised(cpu_backend(), pixels, pixels, 1e-5);
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
      device::HostDevice device;
      DeviceBackend backend(device, type);
      check_normalised(backend, pixels, upload(backend, pixels),
                       type == DataType::kFloat32 ? 1e-5 : 0.02);
      backend.stream().synchronize();
    }
  }
}

// The crop with padding and a flip, computed from its definition.
TEST(NormalisedPixels, AreCroppedAndFlippedOnHostAndDevice) {
  const ImageBatch images{3, 3, 5, 7};
  const Tensor pixels = pixels_of(images);
  const std::vector<ImageCrop> crops{{1, -2, 0}, {0, 3, 1}, {-4, 6, 1}};
  Tensor crop_tensor(Shape{images.batch, 3}, DataType::kInt32);
  std::memcpy(crop_tensor.raw(), crops.data(), crop_tensor.bytes());
  const Tensor on_host = normalised(cpu_backend(), pixels, kScales, &crop_tensor);
  std::size_t at = 0, outside = 0;
  for (int image = 0; image < 3; ++image)
    for (int c = 0; c < 3; ++c)
      for (int y = 0; y < 5; ++y)
        for (int x = 0; x < 7; ++x) {
          const ImageCrop& crop = crops[image];
          const int row = y + crop.down, column = (crop.is_flipped ? 6 - x : x) + crop.right;
          const bool is_inside = row >= 0 && row < 5 && column >= 0 && column < 7;
          outside += is_inside ? 0 : 1;
          const int pixel =
              is_inside ? pixels.values<std::uint8_t>()[((image * 3 + c) * 5 + row) * 7 + column]
                        : padding_pixel(kScales[c]);
          EXPECT_FLOAT_EQ(on_host.values()[at++],
                          static_cast<float>(pixel) * kScales[c].factor() - kScales[c].offset());
        }
  EXPECT_GT(outside, 50u);
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    device::HostDevice device;
    DeviceBackend backend(device, type);
    const Tensor uploaded = upload(backend, pixels), uploaded_crops = upload(backend, crop_tensor);
    const Tensor values = backend.to_host(normalised(backend, uploaded, kScales, &uploaded_crops));
    for (std::size_t i = 0; i < values.count(); ++i)
      EXPECT_NEAR(values.values()[i], on_host.values()[i], type == DataType::kFloat32 ? 1e-5 : 0.02)
          << i;
    backend.stream().synchronize();
  }
  const Tensor two(Shape{2, 3}, DataType::kInt32);
  EXPECT_THROW(normalised(cpu_backend(), pixels, kScales, &two), InvalidArgument);
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
