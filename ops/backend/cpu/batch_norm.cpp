#include "ops/backend/cpu/batch_norm.h"

#include "ops/backend/cpu/onednn.h"

namespace horo::ops::cpu {

using dnnl::batch_normalization_backward;
using dnnl::batch_normalization_forward;
using dnnl::memory;
using Flags = dnnl::normalization_flags;

// The primitives of one shape. oneDNN generates the code of a primitive when it is constructed, so
// a layer keeps its kernels and does not rebuild them in every step. Activations stay row-major:
// the layers before and after this one use the same layout.
struct BatchNormKernel::State {
  State(const ImageBatch& shape, float epsilon_)
      : epsilon(epsilon_),
        images(row_major({shape.batch, shape.channels, shape.height, shape.width})),
        channels(row_major({shape.channels})),
        training_plan(plan(dnnl::prop_kind::forward_training, kAffine)),
        training(training_plan),
        inference(plan(dnnl::prop_kind::forward_inference, kAffine | Flags::use_global_stats)),
        backward(batch_normalization_backward::primitive_desc(
            {dnnl::prop_kind::backward, images, images, epsilon, kAffine}, own_scratch(),
            processor.engine, training_plan)) {}

  batch_normalization_forward::primitive_desc plan(dnnl::prop_kind kind, Flags flags) const {
    return {{kind, images, epsilon, flags}, own_scratch(), processor.engine};
  }

  // The operators of dnnl::normalization_flags are not constexpr, hence the C flags and the cast.
  static constexpr Flags kAffine = static_cast<Flags>(dnnl_use_scale | dnnl_use_shift);

  Processor processor;
  float epsilon;
  memory::desc images, channels;
  batch_normalization_forward::primitive_desc training_plan;
  Primitive training, inference, backward;
};

BatchNormKernel::BatchNormKernel(const ImageBatch& shape, float epsilon)
    : state_(guarded("batch normalisation",
                     [&] { return std::make_unique<State>(shape, epsilon); })) {}

BatchNormKernel::~BatchNormKernel() = default;

void BatchNormKernel::forward_training(const float* input, const float* scale, const float* shift,
                                       float* output, float* mean, float* variance) {
  guarded("batch normalisation", [&] {
    const Processor& on = state_->processor;
    const memory::desc& channels = state_->channels;
    state_->training.execute(on, {{DNNL_ARG_SRC, borrow(on, state_->images, input)},
                                  {DNNL_ARG_SCALE, borrow(on, channels, scale)},
                                  {DNNL_ARG_SHIFT, borrow(on, channels, shift)},
                                  {DNNL_ARG_DST, borrow(on, state_->images, output)},
                                  {DNNL_ARG_MEAN, borrow(on, channels, mean)},
                                  {DNNL_ARG_VARIANCE, borrow(on, channels, variance)}});
  });
}

void BatchNormKernel::forward_inference(const float* input, const float* scale, const float* shift,
                                        const float* mean, const float* variance, float* output) {
  guarded("batch normalisation", [&] {
    const Processor& on = state_->processor;
    const memory::desc& channels = state_->channels;
    state_->inference.execute(on, {{DNNL_ARG_SRC, borrow(on, state_->images, input)},
                                   {DNNL_ARG_SCALE, borrow(on, channels, scale)},
                                   {DNNL_ARG_SHIFT, borrow(on, channels, shift)},
                                   {DNNL_ARG_MEAN, borrow(on, channels, mean)},
                                   {DNNL_ARG_VARIANCE, borrow(on, channels, variance)},
                                   {DNNL_ARG_DST, borrow(on, state_->images, output)}});
  });
}

void BatchNormKernel::backward(const float* input, const float* output_gradient, const float* scale,
                               const float* mean, const float* variance, float* input_gradient,
                               float* scale_gradient, float* shift_gradient) {
  guarded("batch normalisation, gradient", [&] {
    const Processor& on = state_->processor;
    const memory::desc& channels = state_->channels;
    state_->backward.execute(
        on, {{DNNL_ARG_SRC, borrow(on, state_->images, input)},
             {DNNL_ARG_DIFF_DST, borrow(on, state_->images, output_gradient)},
             {DNNL_ARG_SCALE, borrow(on, channels, scale)},
             {DNNL_ARG_SHIFT, borrow(on, channels, scale)},  // required, but not read
             {DNNL_ARG_MEAN, borrow(on, channels, mean)},
             {DNNL_ARG_VARIANCE, borrow(on, channels, variance)},
             {DNNL_ARG_DIFF_SRC, borrow(on, state_->images, input_gradient)},
             {DNNL_ARG_DIFF_SCALE, borrow(on, channels, scale_gradient)},
             {DNNL_ARG_DIFF_SHIFT, borrow(on, channels, shift_gradient)}});
  });
}

}  // namespace horo::ops::cpu
