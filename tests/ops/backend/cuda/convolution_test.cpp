// Convolutions on a GPU against the reference, in both layouts and types.
#include "ops/backend/cuda/convolution.h"

#include "horo/base/error.h"
#include "ops/backend/cuda/convolution_graph.h"
#include "tests/ops/backend/cuda/gpu_values.h"
#include "tests/ops/support/image_layouts.h"
#include "tests/support/reference_kernels/convolution.h"

namespace horo::ops::cuda {
namespace {

template <typename T>
void expect_matches_reference(GpuBench& bench, const Cudnn& cudnn, const ConvolutionShape& shape,
                              const ConvolutionOptions& options) {
  SCOPED_TRACE(testing::Message() << "window " << shape.window.size << ", stride "
                                  << shape.window.stride << ", " << shape.input.channels << " to "
                                  << shape.out_channels << " channels");
  const ImageLayout layout = options.format.layout;
  const ImageBatch filters = filters_of(shape), images = shape.output();
  const auto x = values_as<T>(shape.input.count(), 1), w = values_as<T>(shape.weight_count(), 2),
             b = values_as<T>(shape.out_channels, 3), dy = values_as<T>(images.count(), 4);
  const auto input = bench.upload(laid_out(x, shape.input, layout)),
             weights = bench.upload(laid_out(w, filters, layout)), bias = bench.upload(b),
             gradient = bench.upload(laid_out(dy, images, layout));
  const auto y = bench.unwritten<T>(images.count()), dx = bench.unwritten<T>(x.size()),
             dw = bench.unwritten<T>(w.size()), db = bench.unwritten<T>(b.size());
  const CudnnWork work{cudnn, *bench.stream, bench.workspace()};
  ConvolutionKernel kernel(shape, options);
  const auto expected =
      reference::convolution_gradients(shape, doubles_of(x), doubles_of(w), doubles_of(dy));
  const std::size_t window = shape.window.size * shape.window.size;
  for (int run = 0; run < 2; ++run) {  // the second run uses the algorithms of the first
    kernel.forward(work, input.data(), weights.data(), shape.has_bias ? bias.data() : nullptr,
                   y.data());
    kernel.backward_data(work, weights.data(), gradient.data(), dx.data());
    kernel.backward_weights(work, input.data(), gradient.data(), dw.data(),
                            shape.has_bias ? db.data() : nullptr);
    expect_close(floats_of(as_reference(y.values(*bench.stream), images, layout)),
                 reference::convolution(shape, doubles_of(x), doubles_of(w), doubles_of(b)),
                 tolerance_of<T>(window * shape.input.channels));
    expect_close(floats_of(as_reference(dx.values(*bench.stream), shape.input, layout)),
                 expected.input, tolerance_of<T>(window * shape.out_channels));
    expect_close(floats_of(as_reference(dw.values(*bench.stream), filters, layout)),
                 expected.weights, tolerance_of<T>(images.batch * images.height * images.width));
    if (shape.has_bias)
      expect_close(floats_of(db.values(*bench.stream)), expected.bias,
                   tolerance_of<T>(images.batch * images.height * images.width));
  }
}

const ConvolutionShape kShapes[] = {
    {{4, 16, 8, 8}, 32, {3, 1, 1}, true},  {{3, 16, 9, 7}, 8, {3, 2, 1}, false},
    {{2, 8, 11, 11}, 16, {1, 2, 0}, true}, {{5, 8, 12, 10}, 24, {5, 1, 0}, false},
    {{1, 64, 8, 8}, 64, {3, 1, 1}, false},
};

TEST(GpuConvolution, MatchesReferenceInFloat32) {
  GpuBench bench;
  const Cudnn cudnn;
  for (const ConvolutionShape& shape : kShapes)
    expect_matches_reference<float>(bench, cudnn, shape,
                                    {.format = {DataType::kFloat32, ImageLayout::kChannelsFirst}});
}

TEST(GpuConvolution, MatchesReferenceInFloat32ForOddChannels) {
  GpuBench bench;
  const Cudnn cudnn;
  for (const ConvolutionShape& shape :
       {ConvolutionShape{{3, 3, 9, 7}, 5, {3, 1, 1}, true}, {{2, 1, 5, 5}, 1, {5, 1, 2}, true}})
    expect_matches_reference<float>(bench, cudnn, shape,
                                    {.format = {DataType::kFloat32, ImageLayout::kChannelsFirst}});
}

TEST(GpuConvolution, MatchesReferenceInFloat32WithChannelsLast) {
  GpuBench bench;
  const Cudnn cudnn;
  for (const ConvolutionShape& shape : kShapes)
    expect_matches_reference<float>(bench, cudnn, shape,
                                    {.format = {DataType::kFloat32, ImageLayout::kChannelsLast}});
}

TEST(GpuConvolution, MatchesReferenceInBfloat16) {
  GpuBench bench;
  const Cudnn cudnn;
  for (const auto search : {AlgorithmSearch::kHeuristic, AlgorithmSearch::kMeasured})
    for (const ConvolutionShape& shape : kShapes)
      expect_matches_reference<BFloat16>(
          bench, cudnn, shape,
          {.format = {DataType::kBFloat16, ImageLayout::kChannelsLast}, .search = search});
}

// Skips a direction for which the graph API has no suitable engine.
TEST(GpuConvolutionPlans, MatchReferenceInBfloat16) {
  using Direction = ConvolutionDirection;
  constexpr ImageFormat kFormat{DataType::kBFloat16, ImageLayout::kChannelsLast};
  GpuBench bench;
  const Cudnn cudnn;
  const CudnnWork work{cudnn, *bench.stream, bench.workspace()};
  ConvolutionPlans plans;
  for (const ConvolutionShape& shape : kShapes) {
    const ImageBatch filters = filters_of(shape), images = shape.output();
    const auto x = values_as<BFloat16>(shape.input.count(), 1),
               w = values_as<BFloat16>(shape.weight_count(), 2),
               dy = values_as<BFloat16>(images.count(), 4);
    const auto input = bench.upload(laid_out(x, shape.input, kFormat.layout)),
               weights = bench.upload(laid_out(w, filters, kFormat.layout)),
               gradient = bench.upload(laid_out(dy, images, kFormat.layout));
    const auto y = bench.unwritten<BFloat16>(images.count()),
               dx = bench.unwritten<BFloat16>(x.size()), dw = bench.unwritten<BFloat16>(w.size());
    const auto values = [&](const auto& array, const ImageBatch& extents) {
      return floats_of(as_reference(array.values(*bench.stream), extents, kFormat.layout));
    };
    const std::size_t window = shape.window.size * shape.window.size;
    const auto expected =
        reference::convolution_gradients(shape, doubles_of(x), doubles_of(w), doubles_of(dy));
    if (const auto* plan = plans.find(work, {shape, kFormat})) {
      EXPECT_EQ(plan, plans.find(work, {shape, kFormat}));
      plan->run(work, input.data(), weights.data(), y.data());
      expect_close(values(y, images),
                   reference::convolution(shape, doubles_of(x), doubles_of(w),
                                          reference::Values(shape.out_channels)),
                   tolerance_of<BFloat16>(window * shape.input.channels));
    }
    if (const auto* plan = plans.find(work, {shape, kFormat, Direction::kBackwardData})) {
      plan->run(work, dx.data(), weights.data(), gradient.data());
      expect_close(values(dx, shape.input), expected.input,
                   tolerance_of<BFloat16>(window * shape.out_channels));
    }
    if (const auto* plan = plans.find(work, {shape, kFormat, Direction::kBackwardWeights})) {
      plan->run(work, input.data(), dw.data(), gradient.data());
      expect_close(values(dw, filters), expected.weights,
                   tolerance_of<BFloat16>(images.batch * images.height * images.width));
    }
  }
}

TEST(GpuConvolution, NeedsTheWorkspaceOfItsFirstRun) {
  GpuBench bench;
  const Cudnn cudnn;
  const ConvolutionShape shape{{16, 64, 32, 32}, 64, {3, 1, 1}, false};
  const auto x = bench.unwritten<BFloat16>(shape.input.count());
  const auto w = bench.unwritten<BFloat16>(shape.weight_count());
  const auto dw = bench.unwritten<BFloat16>(shape.weight_count());
  ConvolutionKernel kernel(shape, {.format = {DataType::kBFloat16, ImageLayout::kChannelsLast}});
  kernel.backward_weights({cudnn, *bench.stream, bench.workspace()}, x.data(), x.data(), dw.data(),
                          nullptr);
  // cuDNN decides whether the algorithm needs a workspace. If it does, a smaller one is refused.
  try {
    kernel.backward_weights({cudnn, *bench.stream}, x.data(), x.data(), dw.data(), nullptr);
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("the first gradient by the weights requires"),
              std::string::npos);
  }
  bench.stream->synchronize();
}

}  // namespace
}  // namespace horo::ops::cuda
