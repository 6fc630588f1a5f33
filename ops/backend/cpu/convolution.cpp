#include "ops/backend/cpu/convolution.h"

#include "ops/backend/cpu/onednn.h"

namespace horo::ops::cpu {
namespace {

using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;
using dnnl::memory;

/// Converts one argument between the layout of horo and the layout that a primitive
/// prefers. Equal layouts need no copy; otherwise this owns an array in the layout of the primitive
/// and the reorders. Used from one thread at a time.
class BlockedArgument {
 public:
  BlockedArgument(const Processor& processor, const dnnl::memory::desc& outside,
                  const dnnl::memory::desc& inside);

  /// For a source: the values of `outside` in the layout of the primitive. The array is read now or
  /// during the execution of the primitive, so it must stay valid until then.
  const dnnl::memory& load(const Processor& processor, const float* outside);
  /// For a destination: the memory that the primitive writes. Call store() after its execution.
  const dnnl::memory& target(float* outside);
  void store(const Processor& processor);

 private:
  bool is_direct_;
  dnnl::memory outside_;
  dnnl::memory inside_;
  Primitive reorder_in_;
  Primitive reorder_out_;
};

BlockedArgument::BlockedArgument(const Processor& processor, const memory::desc& outside,
                                 const memory::desc& inside)
    : is_direct_(outside == inside), outside_(outside, processor.engine, nullptr) {
  if (is_direct_) {
    inside_ = memory(inside, processor.engine, nullptr);
    return;
  }
  inside_ = memory(inside, processor.engine);
  const auto create = [&](const memory::desc& from, const memory::desc& to) {
    return Primitive(
        dnnl::reorder::primitive_desc(processor.engine, from, processor.engine, to, own_scratch()));
  };
  reorder_in_ = create(outside, inside);
  reorder_out_ = create(inside, outside);
}

const memory& BlockedArgument::load(const Processor& processor, const float* outside) {
  (is_direct_ ? inside_ : outside_) = borrow(processor, outside_.get_desc(), outside);
  if (is_direct_) return inside_;
  reorder_in_.execute(processor, {{DNNL_ARG_FROM, outside_}, {DNNL_ARG_TO, inside_}});
  return inside_;
}

const memory& BlockedArgument::target(float* outside) {
  (is_direct_ ? inside_ : outside_).set_data_handle(outside);
  return inside_;
}

void BlockedArgument::store(const Processor& processor) {
  if (!is_direct_)
    reorder_out_.execute(processor, {{DNNL_ARG_FROM, inside_}, {DNNL_ARG_TO, outside_}});
}

// Direct convolution: Winograd's algorithm multiplies less, but loses accuracy.
constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

/// The descriptions of all arguments as horo has them, and of the window.
struct Description {
  Description(const ConvolutionShape& shape, ImageLayout layout_) : layout(layout_) {
    const Window& window = shape.window;
    input = images_in(layout, shape.input);
    output = images_in(layout, shape.output());
    weights = row_major({shape.out_channels, shape.input.channels, window.size, window.size});
    if (shape.has_bias) bias = row_major({shape.out_channels});
    strides.assign(2, static_cast<memory::dim>(window.stride));
    padding.assign(2, static_cast<memory::dim>(window.padding));
  }

  /// The layout of images that a primitive is asked for. With channels first it is left to oneDNN:
  /// a blocked layout makes the convolution much faster, by more than the reorders of
  /// BlockedArgument cost. oneDNN computes about as fast with channels last as in a blocked layout.
  memory::desc wanted(const memory::desc& images) const {
    return layout == ImageLayout::kChannelsLast ? images : any_layout(images);
  }

  ImageLayout layout;
  memory::desc input, output, weights, bias;
  memory::dims strides, padding;
};

convolution_forward::primitive_desc plan_forward(const Processor& processor,
                                                 const Description& at) {
  return {
      {dnnl::prop_kind::forward_training, kAlgorithm, at.wanted(at.input), any_layout(at.weights),
       at.bias, at.wanted(at.output), at.strides, at.padding, at.padding},
      own_scratch(),
      processor.engine};
}

}  // namespace

// The primitives of one shape with their arguments. The primitive descriptor of the forward pass
// outlives the constructor because oneDNN needs it as a hint for both backward passes.
struct ConvolutionKernel::State {
  struct Forward {
    Forward(const Processor& processor, const Description& at,
            const convolution_forward::primitive_desc& plan)
        : primitive(plan),
          input(processor, at.input, plan.src_desc()),
          weights(processor, at.weights, plan.weights_desc()),
          output(processor, at.output, plan.dst_desc()) {}
    Primitive primitive;
    BlockedArgument input, weights, output;
  };

  struct BackwardWeights {
    BackwardWeights(const Processor& processor, const Description& at,
                    const convolution_backward_weights::primitive_desc& plan)
        : primitive(plan),
          input(processor, at.input, plan.src_desc()),
          output_gradient(processor, at.output, plan.diff_dst_desc()),
          weights_gradient(processor, at.weights, plan.diff_weights_desc()) {}
    Primitive primitive;
    BlockedArgument input, output_gradient, weights_gradient;
  };

  struct BackwardData {
    BackwardData(const Processor& processor, const Description& at,
                 const convolution_backward_data::primitive_desc& plan)
        : primitive(plan),
          weights(processor, at.weights, plan.weights_desc()),
          output_gradient(processor, at.output, plan.diff_dst_desc()),
          input_gradient(processor, at.input, plan.diff_src_desc()) {}
    Primitive primitive;
    BlockedArgument weights, output_gradient, input_gradient;
  };

  State(const ConvolutionShape& shape, ImageLayout layout)
      : at(shape, layout),
        forward_plan(plan_forward(processor, at)),
        forward(processor, at, forward_plan) {}

  BackwardWeights& backward_weights() {
    if (!backward_weights_) {
      const convolution_backward_weights::primitive_desc plan(
          {kAlgorithm, at.wanted(at.input), any_layout(at.weights), at.bias, at.wanted(at.output),
           at.strides, at.padding, at.padding},
          own_scratch(), processor.engine, forward_plan);
      backward_weights_ = std::make_unique<BackwardWeights>(processor, at, plan);
    }
    return *backward_weights_;
  }

  BackwardData& backward_data() {
    if (!backward_data_) {
      const convolution_backward_data::primitive_desc plan(
          {kAlgorithm, at.wanted(at.input), any_layout(at.weights), at.wanted(at.output),
           at.strides, at.padding, at.padding},
          own_scratch(), processor.engine, forward_plan);
      backward_data_ = std::make_unique<BackwardData>(processor, at, plan);
    }
    return *backward_data_;
  }

  Processor processor;
  Description at;
  convolution_forward::primitive_desc forward_plan;
  Forward forward;

 private:
  // built on first use: evaluation does not need them
  std::unique_ptr<BackwardWeights> backward_weights_;
  std::unique_ptr<BackwardData> backward_data_;
};

ConvolutionKernel::ConvolutionKernel(const ConvolutionShape& shape, ImageLayout layout)
    : state_(guarded("convolution", [&] { return std::make_unique<State>(shape, layout); })) {}

ConvolutionKernel::~ConvolutionKernel() = default;

void ConvolutionKernel::forward(const float* input, const float* weights, const float* bias,
                                float* output) {
  guarded("convolution", [&] {
    const Processor& processor = state_->processor;
    auto& forward = state_->forward;
    forward.primitive.execute(processor,
                              {{DNNL_ARG_SRC, forward.input.load(processor, input)},
                               {DNNL_ARG_WEIGHTS, forward.weights.load(processor, weights)},
                               {DNNL_ARG_BIAS, borrow(processor, state_->at.bias, bias)},
                               {DNNL_ARG_DST, forward.output.target(output)}});
    forward.output.store(processor);
  });
}

void ConvolutionKernel::backward_weights(const float* input, const float* output_gradient,
                                         float* weights_gradient, float* bias_gradient) {
  guarded("convolution, gradient by the weights", [&] {
    const Processor& processor = state_->processor;
    auto& backward = state_->backward_weights();
    backward.primitive.execute(
        processor, {{DNNL_ARG_SRC, backward.input.load(processor, input)},
                    {DNNL_ARG_DIFF_DST, backward.output_gradient.load(processor, output_gradient)},
                    {DNNL_ARG_DIFF_WEIGHTS, backward.weights_gradient.target(weights_gradient)},
                    {DNNL_ARG_DIFF_BIAS, borrow(processor, state_->at.bias, bias_gradient)}});
    backward.weights_gradient.store(processor);
  });
}

void ConvolutionKernel::backward_data(const float* weights, const float* output_gradient,
                                      float* input_gradient) {
  guarded("convolution, gradient by the input", [&] {
    const Processor& processor = state_->processor;
    auto& backward = state_->backward_data();
    backward.primitive.execute(
        processor, {{DNNL_ARG_WEIGHTS, backward.weights.load(processor, weights)},
                    {DNNL_ARG_DIFF_DST, backward.output_gradient.load(processor, output_gradient)},
                    {DNNL_ARG_DIFF_SRC, backward.input_gradient.target(input_gradient)}});
    backward.input_gradient.store(processor);
  });
}

}  // namespace horo::ops::cpu
