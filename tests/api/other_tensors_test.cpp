// Views of tensors of other libraries.
#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>
#include <xtensor/xtensor.hpp>

#include "horo/dlpack.h"
#include "horo/horo.h"
#include "horo/testing.h"

namespace horo {
namespace {

// A DLPack tensor of memory that the test owns.
struct Given {
  std::vector<std::int64_t> shape, strides;
  DLTensor tensor{};

  Given(void* data, DLDataType type, std::vector<std::int64_t> shape_,
        std::vector<std::int64_t> strides_ = {})
      : shape(std::move(shape_)), strides(std::move(strides_)) {
    tensor.data = data;
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int>(shape.size());
    tensor.dtype = type;
    tensor.shape = shape.data();
    tensor.strides = strides.empty() ? nullptr : strides.data();
  }
};

std::string refusal(const DLTensor& tensor) {
  try {
    from_dlpack(tensor);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

constexpr DLDataType kFloat{kDLFloat, 32, 1};

TEST(Dlpack, ViewsHaveMemoryShapeAndTypeOfTheTensor) {
  std::vector<float> values(7);
  Given given(values.data(), kFloat, {2, 3}, {3, 1});
  given.tensor.byte_offset = sizeof(float);
  const TensorView view = from_dlpack(given.tensor);
  EXPECT_EQ(view.data(), values.data() + 1);
  EXPECT_EQ(view.shape(), Shape({2, 3}));
  EXPECT_EQ(view.type(), DataType::kFloat32);
  EXPECT_EQ(view.device(), nullptr);
  // A stride of a dimension of one element has no meaning. Nor has any in an empty tensor.
  EXPECT_EQ(from_dlpack(Given(values.data(), kFloat, {1, 3}, {99, 1}).tensor).count(), 3u);
  EXPECT_EQ(from_dlpack(Given(values.data(), kFloat, {0, 3}, {7, 7}).tensor).count(), 0u);
  EXPECT_EQ(from_dlpack(Given(values.data(), kFloat, {}).tensor).count(), 1u);
}

TEST(Dlpack, EveryTypeRoundTripsAndKeepsItsOwner) {
  const auto memory = std::make_shared<std::array<std::byte, 96>>();
  for (int type = 0; type < kDataTypeCount; ++type) {
    const TensorView view(memory->data(), static_cast<DataType>(type), Shape({3, 4}));
    DLManagedTensor* const managed = to_dlpack(view, memory);
    EXPECT_EQ(memory.use_count(), 2);
    const TensorView back = from_dlpack(managed->dl_tensor);
    EXPECT_EQ(back.data(), view.data());
    EXPECT_EQ(back.type(), view.type());
    EXPECT_EQ(back.shape(), view.shape());
    managed->deleter(managed);
    EXPECT_EQ(memory.use_count(), 1);
  }
}

TEST(Dlpack, RefusesWhatHasNoView) {
  std::vector<float> values(12);
  EXPECT_EQ(refusal(Given(values.data(), kFloat, {2, 3}, {1, 2}).tensor),
            "a DLPack tensor of shape [2, 3] is not contiguous in row-major order; copy it");
  EXPECT_EQ(refusal(Given(values.data(), {kDLComplex, 64, 1}, {2}).tensor),
            "a DLPack tensor has the type (code 5, bits 64, lanes 1); horo supports bool, integers "
            "of 8 to 64 bits and float types");
  EXPECT_NE(refusal(Given(values.data(), {kDLFloat, 32, 4}, {2}).tensor), "accepted");
  Given elsewhere(values.data(), kFloat, {2});
  elsewhere.tensor.device.device_type = kDLMetal;
  EXPECT_EQ(refusal(elsewhere.tensor),
            "a DLPack tensor is in the memory of device type 8; horo supports host memory (kDLCPU, "
            "kDLCUDAHost) and GPUs (kDLCUDA)");
  elsewhere.tensor.device.device_type = kDLCUDA;
  EXPECT_EQ(refusal(elsewhere.tensor),
            "a DLPack tensor is in the memory of a GPU; pass the device of horo::open_gpu()");
}

TEST(OtherTensors, OfEigenAndXtensorAreReducedInPlace) {
  testing::run_ranks(3, [](Context& ctx) {
    // Eigen's matrices are column-major: a view has the transposed shape.
    Eigen::MatrixXf matrix = Eigen::MatrixXf::Constant(4, 5, static_cast<float>(ctx.rank()));
    matrix(3, 1) += 10;
    ctx.allreduce({matrix.data(), Shape({matrix.cols(), matrix.rows()})},
                  {.name = "eigen", .op = ReduceOp::kSum});
    EXPECT_EQ(matrix(0, 0), 3);
    EXPECT_EQ(matrix(3, 1), 33);

    xt::xtensor<double, 2> tensor = xt::ones<double>({2, 3}) * ctx.rank();
    ctx.allreduce({tensor.data(), Shape({tensor.shape(0), tensor.shape(1)})},
                  {.name = "xtensor", .op = ReduceOp::kSum});
    EXPECT_EQ(tensor(1, 2), 3);
    // A contiguous container is a view of one dimension.
    std::array<std::int64_t, 3> counts{ctx.rank(), 1, 2};
    ctx.allreduce(counts, {.name = "array", .op = ReduceOp::kSum});
    EXPECT_EQ(counts[0], 3);
  });
}

}  // namespace
}  // namespace horo
