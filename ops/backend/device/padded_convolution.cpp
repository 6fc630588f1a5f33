#include "ops/backend/device/padded_convolution.h"

#include <cstddef>
#include <utility>

#include "horo/base/text/quantity.h"
#include "ops/backend/device/matrix.h"

namespace horo::ops {
namespace {

constexpr std::size_t kMultiple = 8;

class PaddedConvolution : public WeightedOperation {
 public:
  PaddedConvolution(std::unique_ptr<WeightedOperation> padded, const ConvolutionShape& shape,
                    device::Stream& stream, device::CachingAllocator& allocator)
      : padded_(std::move(padded)),
        channels_(shape.input.channels),
        padded_channels_(with_padded_channels(shape).input.channels),
        pixels_(shape.input.count() / channels_),
        taps_(shape.weight_count() / channels_),
        stream_(stream),
        allocator_(allocator) {}

  void forward(const void* input, const void* weights, const void* bias, void* output) override {
    const device::Memory x = padded(input, pixels_), w = padded(weights, taps_);
    padded_->forward(x.data(), w.data(), bias, output);
  }
  void backward_weights(const void* input, const void* output_gradient, void* weights_gradient,
                        void* bias_gradient) override {
    const device::Memory x = padded(input, pixels_), dw = allocate(taps_);
    padded_->backward_weights(x.data(), output_gradient, dw.data(), bias_gradient);
    cut(dw, taps_, weights_gradient);
  }
  void backward_data(const void* weights, const void* output_gradient,
                     void* input_gradient) override {
    const device::Memory w = padded(weights, taps_), dx = allocate(pixels_);
    padded_->backward_data(w.data(), output_gradient, dx.data());
    cut(dx, pixels_, input_gradient);
  }

 private:
  // Memory may be freed as soon as the work is submitted: the allocator reuses it in stream order.
  device::Memory allocate(std::size_t rows) {
    return allocator_.allocate(rows * padded_channels_ * sizeof(BFloat16), stream_);
  }
  device::Memory padded(const void* from, std::size_t rows) {
    device::Memory to = allocate(rows);
    device_kernels::resize_rows(stream_, reinterpret_cast<BFloat16*>(to.data()), padded_channels_,
                                static_cast<const BFloat16*>(from), channels_, rows);
    return to;
  }
  void cut(const device::Memory& from, std::size_t rows, void* to) {
    device_kernels::resize_rows(stream_, static_cast<BFloat16*>(to), channels_,
                                reinterpret_cast<const BFloat16*>(from.data()), padded_channels_,
                                rows);
  }

  std::unique_ptr<WeightedOperation> padded_;
  std::size_t channels_, padded_channels_;
  std::size_t pixels_;  // of all images
  std::size_t taps_;    // of all filters
  device::Stream& stream_;
  device::CachingAllocator& allocator_;
};

}  // namespace

bool needs_padded_channels(const ConvolutionShape& shape, const ImageFormat& format) {
  return format.type != DataType::kFloat32 && format.layout == ImageLayout::kChannelsLast &&
         shape.input.channels % kMultiple != 0;
}

ConvolutionShape with_padded_channels(ConvolutionShape shape) {
  shape.input.channels = round_up(shape.input.channels, kMultiple);
  return shape;
}

std::unique_ptr<WeightedOperation> make_padded_convolution(
    std::unique_ptr<WeightedOperation> padded, const ConvolutionShape& shape,
    device::Stream& stream, device::CachingAllocator& allocator) {
  return std::make_unique<PaddedConvolution>(std::move(padded), shape, stream, allocator);
}

}  // namespace horo::ops
