#include "ops/backend/cpu/pooling.h"

#include <algorithm>
#include <vector>

#include "ops/backend/cpu/onednn.h"

namespace horo::ops::cpu {
namespace {

std::size_t pixels_of(const ImageBatch& shape) { return shape.height * shape.width; }

}  // namespace

// Sums in double and in pixel order, so that the result has the same bits in every run and does not
// lose precision for large images.
void global_average_pool(const ImageBatch& shape, ImageLayout layout, std::span<const float> input,
                         std::span<float> averages) {
  const std::size_t pixels = pixels_of(shape), channels = shape.channels;
  const auto count = static_cast<double>(pixels);
  if (layout == ImageLayout::kChannelsFirst) {
    for (std::size_t plane = 0; plane < averages.size(); ++plane) {
      double sum = 0;
      for (const float value : input.subspan(plane * pixels, pixels))
        sum += static_cast<double>(value);
      averages[plane] = static_cast<float>(sum / count);
    }
    return;
  }
  std::vector<double> sums(channels);
  for (std::size_t image = 0; image < shape.batch; ++image) {
    std::ranges::fill(sums, 0.0);
    for (std::size_t pixel = 0; pixel < pixels; ++pixel)
      for (std::size_t c = 0; c < channels; ++c)
        sums[c] += static_cast<double>(input[(image * pixels + pixel) * channels + c]);
    for (std::size_t c = 0; c < channels; ++c)
      averages[image * channels + c] = static_cast<float>(sums[c] / count);
  }
}

void global_average_pool_backward(const ImageBatch& shape, ImageLayout layout,
                                  std::span<const float> gradient,
                                  std::span<float> input_gradient) {
  const std::size_t pixels = pixels_of(shape), channels = shape.channels;
  const float share = 1.0f / static_cast<float>(pixels);
  if (layout == ImageLayout::kChannelsFirst) {
    for (std::size_t plane = 0; plane < gradient.size(); ++plane)
      std::ranges::fill(input_gradient.subspan(plane * pixels, pixels), gradient[plane] * share);
    return;
  }
  for (std::size_t row = 0; row < shape.batch * pixels; ++row) {
    const float* const from = gradient.data() + row / pixels * channels;
    for (std::size_t c = 0; c < channels; ++c) input_gradient[row * channels + c] = from[c] * share;
  }
}

using dnnl::memory;
using dnnl::pooling_backward;
using dnnl::pooling_forward;

struct PoolKernel::State {
  State(Kind kind, const PoolShape& shape, ImageLayout layout)
      : algorithm(kind == Kind::kLargest ? dnnl::algorithm::pooling_max
                                         : dnnl::algorithm::pooling_avg_exclude_padding),
        input(images_in(layout, shape.input)),
        output(images_in(layout, shape.output())),
        size(2, static_cast<memory::dim>(shape.window.size)),
        strides(2, static_cast<memory::dim>(shape.window.stride)),
        padding(2, static_cast<memory::dim>(shape.window.padding)),
        training_plan(plan(dnnl::prop_kind::forward_training)),
        training(training_plan),
        inference(plan(dnnl::prop_kind::forward_inference)),
        backward(pooling_backward::primitive_desc(
            {algorithm, input, output, strides, size, padding, padding}, own_scratch(),
            processor.engine, training_plan)) {
    if (kind == Kind::kLargest) winners = memory(training_plan.workspace_desc(), processor.engine);
  }

  pooling_forward::primitive_desc plan(dnnl::prop_kind kind) const {
    return {{kind, algorithm, input, output, strides, size, padding, padding},
            own_scratch(),
            processor.engine};
  }
  /// Executes with the workspace, if the kind has one.
  void execute(const Primitive& primitive, Primitive::Arguments arguments) const {
    if (winners) arguments.emplace(DNNL_ARG_WORKSPACE, winners);
    primitive.execute(processor, std::move(arguments));
  }

  Processor processor;
  dnnl::algorithm algorithm;
  memory::desc input, output;
  memory::dims size, strides, padding;
  pooling_forward::primitive_desc training_plan;
  Primitive training, inference, backward;
  // Which pixel of each window was the largest, in a layout private to oneDNN. forward_training()
  // writes it and backward() reads it, so one State serves one forward pass at a time.
  memory winners;
};

PoolKernel::PoolKernel(Kind kind, const PoolShape& shape, ImageLayout layout)
    : state_(guarded("pooling", [&] { return std::make_unique<State>(kind, shape, layout); })) {}

PoolKernel::~PoolKernel() = default;

void PoolKernel::forward_inference(const float* input, float* output) {
  guarded("pooling", [&] {
    const Processor& on = state_->processor;
    state_->inference.execute(on, {{DNNL_ARG_SRC, borrow(on, state_->input, input)},
                                   {DNNL_ARG_DST, borrow(on, state_->output, output)}});
  });
}

void PoolKernel::forward_training(const float* input, float* output) {
  guarded("pooling", [&] {
    const Processor& on = state_->processor;
    state_->execute(state_->training, {{DNNL_ARG_SRC, borrow(on, state_->input, input)},
                                       {DNNL_ARG_DST, borrow(on, state_->output, output)}});
  });
}

void PoolKernel::backward(const float* output_gradient, float* input_gradient) {
  guarded("pooling, gradient", [&] {
    const Processor& on = state_->processor;
    state_->execute(state_->backward,
                    {{DNNL_ARG_DIFF_DST, borrow(on, state_->output, output_gradient)},
                     {DNNL_ARG_DIFF_SRC, borrow(on, state_->input, input_gradient)}});
  });
}

}  // namespace horo::ops::cpu
