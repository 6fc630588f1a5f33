#include "ops/tensor/tensor.h"

#include <cstdint>

#include "horo/base/error.h"
#include "tests/ops/support/test_tensors.h"

namespace horo::ops {
namespace {

TEST(Tensor, IsAlignedAndOfItsShape) {
  for (const std::size_t count : {1, 7, 64, 1000}) {
    const Tensor tensor(Shape{count, 3});
    EXPECT_EQ(tensor.count(), count * 3);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0u);
  }
  EXPECT_EQ(Tensor().count(), 0u);
  EXPECT_EQ(Tensor(Shape{4, 0}).data(), nullptr);
  EXPECT_EQ(Tensor(Shape{}).count(), 1u);
}

TEST(Tensor, FillCloneAndView) {
  Tensor tensor = Tensor::zeros({2, 3});
  EXPECT_EQ(values_of(tensor), std::vector<float>(6, 0.0f));
  tensor.fill(2.5f);
  Tensor copy = tensor.clone();
  copy.values()[4] = -1.0f;
  EXPECT_EQ(values_of(tensor), std::vector<float>(6, 2.5f));
  EXPECT_EQ(copy.shape(), (Shape{2, 3}));
  const TensorView view = copy.view();
  EXPECT_EQ(view.data(), copy.data());
  EXPECT_EQ(view.type(), DataType::kFloat32);
  EXPECT_EQ(view.shape(), (Shape{2, 3}));
}

TEST(Tensor, ReshapedReusesTheMemory) {
  Tensor tensor = varied_tensor({2, 6}, 1);
  const float* memory = tensor.data();
  const Tensor reshaped = std::move(tensor).reshaped({3, 2, 2});
  EXPECT_EQ(reshaped.data(), memory);
  EXPECT_EQ(reshaped.shape(), (Shape{3, 2, 2}));
  EXPECT_EQ(tensor.count(), 0u);  // NOLINT(bugprone-use-after-move): documented as empty
  Tensor other = varied_tensor({2, 2}, 1);
  EXPECT_EQ(message_of<InvalidArgument>([&] { (void)std::move(other).reshaped({5}); }),
            "cannot reshape a tensor of shape [2, 2] to [5]: the counts of elements differ");
  EXPECT_EQ(other.count(), 4u);
}

TEST(Tensor, RefusesWhatDoesNotFit) {
  EXPECT_THROW(Tensor(Shape{std::size_t{1} << 62}), InvalidArgument);
}

}  // namespace
}  // namespace horo::ops
