// Pooling and batch normalisation on a GPU against the reference, in both layouts and types.
#include "ops/backend/cuda/pooling.h"

#include "tests/ops/backend/cuda/gpu_values.h"
#include "tests/ops/support/image_layouts.h"
#include "tests/support/reference_kernels/max_pool.h"

namespace horo::ops::cuda {
namespace {

/// Values at distances up to 250 differ, also in bfloat16, so all pixels of a window differ.
template <typename T>
std::vector<T> distinct_values(std::size_t count) {
  std::vector<T> values;
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(T(static_cast<float>(i * 37 % 251) - 125));
  return values;
}

template <typename T>
class GpuImages : public testing::Test {
 protected:
  static constexpr double kTolerance = sizeof(T) == 2 ? 2e-2 : 1e-4;
  static constexpr ImageLayout kLayouts[] = {ImageLayout::kChannelsFirst,
                                             ImageLayout::kChannelsLast};
  CudnnWork work() { return {cudnn_, *bench_.stream}; }
  std::vector<float> download(const device::DeviceArray<T>& array, const ImageBatch& images,
                              ImageLayout layout) {
    return floats_of(as_reference(array.values(*bench_.stream), images, layout));
  }

  GpuBench bench_;
  Cudnn cudnn_;
};

using Types = testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(GpuImages, Types);

TYPED_TEST(GpuImages, LargestOfWindowsMatchesReference) {
  auto& bench = this->bench_;
  for (const ImageLayout layout : this->kLayouts)
    for (const Window window : {Window{2, 2, 0}, {3, 2, 1}, {3, 3, 0}}) {
      const PoolShape shape{{3, 8, 9, 7}, window};
      const auto x = distinct_values<TypeParam>(shape.input.count());
      const auto dy = values_as<TypeParam>(shape.output().count(), 2);
      const auto input = bench.upload(laid_out(x, shape.input, layout));
      const auto gradient = bench.upload(laid_out(dy, shape.output(), layout));
      const auto output = bench.template unwritten<TypeParam>(dy.size());
      const auto back = bench.template unwritten<TypeParam>(x.size());
      const auto kernel = PoolKernel::largest(shape, {type_of<TypeParam>(), layout});
      kernel.forward(this->work(), input.data(), output.data());
      kernel.backward(this->work(), input.data(), output.data(), gradient.data(), back.data());
      expect_close(this->download(output, shape.output(), layout),
                   reference::max_pool(shape, doubles_of(x)), 0);
      expect_close(this->download(back, shape.input, layout),
                   reference::max_pool_gradient(shape, doubles_of(x), doubles_of(dy)),
                   this->kTolerance);
    }
}

TYPED_TEST(GpuImages, AveragesOfPlanesMatchReference) {
  auto& bench = this->bench_;
  const ImageBatch images{3, 8, 5, 7};
  for (const ImageLayout layout : this->kLayouts) {
    const auto x = values_as<TypeParam>(images.count(), 1);
    const auto dy = values_as<TypeParam>(24, 2);
    const auto input = bench.upload(laid_out(x, images, layout)), gradient = bench.upload(dy);
    const auto output = bench.template unwritten<TypeParam>(24);
    const auto back = bench.template unwritten<TypeParam>(x.size());
    const auto kernel = PoolKernel::average_of_planes(images, {type_of<TypeParam>(), layout});
    kernel.forward(this->work(), input.data(), output.data());
    kernel.backward(this->work(), input.data(), output.data(), gradient.data(), back.data());
    reference::Values averages(24), shares(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      averages[i / 35] += doubles_of(x)[i] / 35;
      shares[i] = doubles_of(dy)[i / 35] / 35;
    }
    expect_close(floats_of(output.values(*bench.stream)), averages, this->kTolerance);
    expect_close(this->download(back, images, layout), shares, this->kTolerance);
  }
}

}  // namespace
}  // namespace horo::ops::cuda
