// Tensors of a device, and copies to and from it, on the stand-in and on a GPU.
#include <numeric>

#include "horo/base/error.h"
#include "horo/base/float16.h"
#include "ops/tensor/tensor.h"
#include "ops/tensor/tensor_transfer.h"
#include "tests/ops/support/test_tensors.h"
#include "tests/support/device_under_test.h"

namespace horo::ops {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<device::Device> slow_device() {
  return device::make_device({.max_delay = 300us, .seed = 3});
}

Tensor allocate(device::Device& device, const Shape& shape, DataType type) {
  return {shape, type, device, device.allocate(shape.count() * size_of(type))};
}

TEST(TensorOfADevice, HasAShapeATypeAndBytes) {
  const auto device = slow_device();
  const Tensor tensor = allocate(*device, {3, 5}, DataType::kBFloat16);
  EXPECT_EQ(tensor.shape(), (Shape{3, 5}));
  EXPECT_EQ(tensor.count(), 15u);
  EXPECT_EQ(tensor.bytes(), 30u);
  EXPECT_TRUE(device->owns(tensor.raw()));
  EXPECT_EQ(Tensor().count(), 0u);
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              Tensor({3, 5}, DataType::kFloat32, *device, device->allocate(59));
            }),
            "a tensor of 60 bytes does not fit into memory of 59");
}

TEST(TensorOfADevice, ReshapesAndMovesWithoutACopy) {
  const auto device = slow_device();
  Tensor tensor = allocate(*device, {4, 6}, DataType::kInt32);
  std::byte* const data = tensor.raw();
  Tensor flat = std::move(tensor).reshaped({24});
  EXPECT_EQ(flat.raw(), data);
  EXPECT_EQ(flat.type(), DataType::kInt32);
  EXPECT_EQ(tensor.count(), 0u);
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              (void)std::move(flat).reshaped({5, 5});
            }),
            "cannot reshape a tensor of shape [24] to [5, 5]: the counts of elements differ");
}

TEST(TensorOfADevice, SharesAnOwnersMemory) {
  const auto device = slow_device();
  const auto memory = std::make_shared<device::Memory>(device->allocate(100));
  const std::weak_ptr<device::Memory> watched = memory;
  Tensor part({2, 3}, DataType::kFloat32, memory->data() + 40, memory, device.get());
  EXPECT_EQ(part.raw(), memory->data() + 40);
  EXPECT_EQ(watched.use_count(), 2);
  Tensor other = part.shared();
  EXPECT_EQ(other.raw(), part.raw());
  EXPECT_EQ(other.shape(), part.shape());
  EXPECT_EQ(other.type(), part.type());
  part = Tensor();
  EXPECT_EQ(watched.use_count(), 2);
  other = Tensor();
  EXPECT_EQ(watched.use_count(), 1);
}

TEST(TensorTransfer, UploadsAndDownloadsValues) {
  const auto device = slow_device();
  const auto stream = device->make_stream();
  TensorTransfer transfer(*device);
  for (const Shape& shape : {Shape{7, 3}, Shape{1}, Shape{100, 11}, Shape{2, 2}, Shape{0, 4}}) {
    const Tensor values = varied_tensor(shape, static_cast<std::uint32_t>(shape.count()));
    Tensor there = allocate(*device, shape, DataType::kFloat32);
    transfer.upload(values, there, *stream);
    Tensor back(shape);
    transfer.download(there, back, *stream);
    EXPECT_EQ(values_of(back), values_of(values));
  }
}

TEST(TensorTransfer, RoundsToTheTypeOfTheDevice) {
  const auto device = slow_device();
  const auto stream = device->make_stream();
  TensorTransfer transfer(*device);
  const Tensor values = varied_tensor({257}, 5);
  const auto rounded = [&](DataType type) {
    Tensor there = allocate(*device, {257}, type);
    transfer.upload(values, there, *stream);
    Tensor back(Shape{257});
    transfer.download(there, back, *stream);
    return values_of(back);
  };
  const auto half = rounded(DataType::kFloat16), bfloat = rounded(DataType::kBFloat16);
  for (std::size_t i = 0; i < 257; ++i) {
    EXPECT_EQ(half[i], static_cast<float>(Float16(values.values()[i])));
    EXPECT_EQ(bfloat[i], static_cast<float>(BFloat16(values.values()[i])));
  }
}

// The host changes its tensor while the copies are in flight.
TEST(TensorTransfer, SourceIsReusableAfterUpload) {
  const auto device = slow_device();
  const auto stream = device->make_stream();
  std::vector<Tensor> there;
  Tensor values(Shape{64});
  {
    TensorTransfer first(*device), second(*device);
    for (int step = 0; step < 10; ++step) {
      std::iota(values.data(), values.data() + 64, static_cast<float>(100 * step));
      there.push_back(allocate(*device, {64}, DataType::kFloat32));
      (step % 2 == 0 ? first : second).upload(values, there.back(), *stream);
    }
    values.fill(-1);
  }  // ends after the copies are complete
  TensorTransfer transfer(*device);
  for (std::size_t step = 0; step < 10; ++step) {
    transfer.download(there[step], values, *stream);
    EXPECT_EQ(values.values()[0], static_cast<float>(100 * step));
    EXPECT_EQ(values.values()[63], static_cast<float>(100 * step + 63));
  }
}

TEST(TensorTransfer, RefusesOtherShapesAndTypes) {
  const auto device = slow_device();
  const auto stream = device->make_stream();
  TensorTransfer transfer(*device);
  Tensor there = allocate(*device, {2, 3}, DataType::kFloat32);
  EXPECT_EQ(
      message_of<InvalidArgument>([&] {
        transfer.upload(Tensor::zeros({3, 2}), there, *stream);
      }),
      "cannot copy between a host tensor of shape [3, 2] and a device tensor of shape [2, 3]");
  Tensor whole = allocate(*device, {2, 3}, DataType::kInt32);
  Tensor back(Shape{2, 3});
  EXPECT_EQ(message_of<InvalidArgument>([&] { transfer.download(whole, back, *stream); }),
            "cannot copy a tensor of type int32 between host and device; supported: float32, "
            "float16, bfloat16");
}

}  // namespace
}  // namespace horo::ops
