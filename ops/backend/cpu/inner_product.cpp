#include "ops/backend/cpu/inner_product.h"

#include "ops/backend/cpu/onednn.h"

namespace horo::ops::cpu {

using dnnl::inner_product_backward_data;
using dnnl::inner_product_backward_weights;
using dnnl::inner_product_forward;
using dnnl::memory;

// All arrays stay row-major. The weights change in every step, and a reorder per step costs more
// than a blocked layout gains.
struct InnerProductKernel::State {
  explicit State(const InnerProductShape& shape)
      : input(row_major({shape.batch, shape.in_features})),
        weights(row_major({shape.out_features, shape.in_features})),
        output(row_major({shape.batch, shape.out_features})),
        bias(shape.has_bias ? row_major({shape.out_features}) : memory::desc()),
        plan({dnnl::prop_kind::forward_training, input, weights, bias, output}, own_scratch(),
             processor.engine),
        forward(plan),
        backward_weights(inner_product_backward_weights::primitive_desc(
            {input, weights, bias, output}, own_scratch(), processor.engine, plan)),
        backward_data(inner_product_backward_data::primitive_desc(
            {input, weights, output}, own_scratch(), processor.engine, plan)) {}

  Processor processor;
  memory::desc input, weights, output, bias;
  inner_product_forward::primitive_desc plan;
  Primitive forward, backward_weights, backward_data;
};

InnerProductKernel::InnerProductKernel(const InnerProductShape& shape)
    : state_(guarded("linear", [&] { return std::make_unique<State>(shape); })) {}

InnerProductKernel::~InnerProductKernel() = default;

void InnerProductKernel::forward(const float* input, const float* weights, const float* bias,
                                 float* output) {
  guarded("linear", [&] {
    const Processor& on = state_->processor;
    state_->forward.execute(on, {{DNNL_ARG_SRC, borrow(on, state_->input, input)},
                                 {DNNL_ARG_WEIGHTS, borrow(on, state_->weights, weights)},
                                 {DNNL_ARG_BIAS, borrow(on, state_->bias, bias)},
                                 {DNNL_ARG_DST, borrow(on, state_->output, output)}});
  });
}

void InnerProductKernel::backward_weights(const float* input, const float* output_gradient,
                                          float* weights_gradient, float* bias_gradient) {
  guarded("linear, gradient by the weights", [&] {
    const Processor& on = state_->processor;
    state_->backward_weights.execute(
        on, {{DNNL_ARG_SRC, borrow(on, state_->input, input)},
             {DNNL_ARG_DIFF_DST, borrow(on, state_->output, output_gradient)},
             {DNNL_ARG_DIFF_WEIGHTS, borrow(on, state_->weights, weights_gradient)},
             {DNNL_ARG_DIFF_BIAS, borrow(on, state_->bias, bias_gradient)}});
  });
}

void InnerProductKernel::backward_data(const float* weights, const float* output_gradient,
                                       float* input_gradient) {
  guarded("linear, gradient by the input", [&] {
    const Processor& on = state_->processor;
    state_->backward_data.execute(on,
                                  {{DNNL_ARG_WEIGHTS, borrow(on, state_->weights, weights)},
                                   {DNNL_ARG_DIFF_DST, borrow(on, state_->output, output_gradient)},
                                   {DNNL_ARG_DIFF_SRC, borrow(on, state_->input, input_gradient)}});
  });
}

}  // namespace horo::ops::cpu
