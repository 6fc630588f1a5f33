#include "ops/backend/cpu/pooling.h"

#include <algorithm>

#include "ops/backend/cpu/onednn.h"

namespace horo::ops::cpu {

// Sums in double and in pixel order, so that the result has the same bits in every run and does not
// lose precision for large planes.
void global_average_pool(std::span<const float> input, std::size_t pixels,
                         std::span<float> averages) {
  const auto count = static_cast<double>(pixels);
  for (std::size_t plane = 0; plane < averages.size(); ++plane) {
    double sum = 0;
    for (const float value : input.subspan(plane * pixels, pixels))
      sum += static_cast<double>(value);
    averages[plane] = static_cast<float>(sum / count);
  }
}

void global_average_pool_backward(std::span<const float> gradient, std::size_t pixels,
                                  std::span<float> input_gradient) {
  for (std::size_t plane = 0; plane < gradient.size(); ++plane)
    std::ranges::fill(input_gradient.subspan(plane * pixels, pixels),
                      gradient[plane] / static_cast<float>(pixels));
}

using dnnl::memory;
using dnnl::pooling_backward;
using dnnl::pooling_forward;

struct MaxPoolKernel::State {
  explicit State(const PoolShape& shape)
      : input(describe(shape.input)),
        output(describe(shape.output())),
        size(2, static_cast<memory::dim>(shape.window.size)),
        strides(2, static_cast<memory::dim>(shape.window.stride)),
        padding(2, static_cast<memory::dim>(shape.window.padding)),
        training_plan(plan(dnnl::prop_kind::forward_training)),
        training(training_plan),
        inference(plan(dnnl::prop_kind::forward_inference)),
        backward(pooling_backward::primitive_desc(
            {dnnl::algorithm::pooling_max, input, output, strides, size, padding, padding},
            own_scratch(), processor.engine, training_plan)),
        winners(training_plan.workspace_desc(), processor.engine) {}

  static memory::desc describe(const ImageBatch& images) {
    return row_major({images.batch, images.channels, images.height, images.width});
  }
  pooling_forward::primitive_desc plan(dnnl::prop_kind kind) const {
    return {{kind, dnnl::algorithm::pooling_max, input, output, strides, size, padding, padding},
            own_scratch(),
            processor.engine};
  }

  Processor processor;
  memory::desc input, output;
  memory::dims size, strides, padding;
  pooling_forward::primitive_desc training_plan;
  Primitive training, inference, backward;
  // Which pixel of each window was the largest, in a layout private to oneDNN. forward_training()
  // writes it and backward() reads it, so one State serves one forward pass at a time.
  memory winners;
};

MaxPoolKernel::MaxPoolKernel(const PoolShape& shape)
    : state_(guarded("max pooling", [&] { return std::make_unique<State>(shape); })) {}

MaxPoolKernel::~MaxPoolKernel() = default;

void MaxPoolKernel::forward_inference(const float* input, float* output) {
  guarded("max pooling", [&] {
    const Processor& on = state_->processor;
    state_->inference.execute(on, {{DNNL_ARG_SRC, borrow(on, state_->input, input)},
                                   {DNNL_ARG_DST, borrow(on, state_->output, output)}});
  });
}

void MaxPoolKernel::forward_training(const float* input, float* output) {
  guarded("max pooling", [&] {
    const Processor& on = state_->processor;
    state_->training.execute(on, {{DNNL_ARG_SRC, borrow(on, state_->input, input)},
                                  {DNNL_ARG_DST, borrow(on, state_->output, output)},
                                  {DNNL_ARG_WORKSPACE, state_->winners}});
  });
}

void MaxPoolKernel::backward(const float* output_gradient, float* input_gradient) {
  guarded("max pooling, gradient", [&] {
    const Processor& on = state_->processor;
    state_->backward.execute(on, {{DNNL_ARG_DIFF_DST, borrow(on, state_->output, output_gradient)},
                                  {DNNL_ARG_DIFF_SRC, borrow(on, state_->input, input_gradient)},
                                  {DNNL_ARG_WORKSPACE, state_->winners}});
  });
}

}  // namespace horo::ops::cpu
