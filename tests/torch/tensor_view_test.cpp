#include "horo/adapters/torch/tensor_view.h"

#include <gmock/gmock.h>

#include "tests/torch/ranks_with_torch.h"

namespace horo::libtorch {
namespace {

using ::testing::HasSubstr;

TEST(TorchTensorView, HasAddressTypeAndShape) {
  const std::pair<at::ScalarType, DataType> types[] = {
      {at::kFloat, DataType::kFloat32}, {at::kDouble, DataType::kFloat64},
      {at::kHalf, DataType::kFloat16},  {at::kBFloat16, DataType::kBFloat16},
      {at::kChar, DataType::kInt8},     {at::kByte, DataType::kUInt8},
      {at::kShort, DataType::kInt16},   {at::kInt, DataType::kInt32},
      {at::kLong, DataType::kInt64},    {at::kBool, DataType::kBool}};
  for (const auto& [of_torch, of_horo] : types) {
    const at::Tensor tensor = ::torch::zeros({2, 3}, of_torch);
    const TensorView view = view_of(tensor);
    EXPECT_EQ(view.data(), tensor.data_ptr());
    EXPECT_EQ(view.type(), of_horo);
    EXPECT_EQ(view.shape(), (Shape{2, 3}));
    EXPECT_EQ(view.device(), nullptr);
  }
  EXPECT_EQ(view_of(::torch::zeros({})).shape(), Shape{1});
}

TEST(TorchTensorView, IsFlatInAnyOrderOfDimensions) {
  const at::Tensor tensor = ::torch::zeros({2, 3}).t();
  EXPECT_EQ(flat_view_of(tensor).shape(), Shape{6});
  EXPECT_THAT(error_of([&] { (void)view_of(tensor); }),
              HasSubstr("a tensor of shape [3, 2] and strides [1, 3] is not contiguous"));
  EXPECT_THAT(error_of([&] {
                (void)flat_view_of(::torch::zeros({2, 3}).select(1, 0));
              }),
              HasSubstr("has gaps or repeated elements in memory"));
}

TEST(TorchTensorView, NamesTensorsThatAreNotSupported) {
  EXPECT_EQ(error_of([] { (void)view_of({}, nullptr, "the loss"); }), "the loss is undefined");
  EXPECT_THAT(error_of([] { (void)view_of(::torch::zeros({2}, at::kComplexFloat)); }),
              HasSubstr("a tensor has the element type ComplexFloat"));
  EXPECT_THAT(error_of([] { (void)view_of(::torch::zeros({2}).to_sparse()); }),
              HasSubstr("a tensor is sparse"));
}

TEST(TorchTensorView, IsReducedInPlace) {
  on_ranks(3, [](Context& ctx) {
    const at::Tensor loss = ::torch::full({}, ctx.rank() + 1.0);
    ctx.allreduce(view_of(loss), {.name = "loss"});
    EXPECT_EQ(loss.item<double>(), 2.0);
  });
}

}  // namespace
}  // namespace horo::libtorch
