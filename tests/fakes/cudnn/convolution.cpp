#include "tests/fakes/cudnn/convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>

namespace horo::fakes::dnn {
namespace {

/// The part of one row of the output that one value of the filter touches. Steps are in elements.
struct Row {
  std::size_t output, images, filter;  // the first place in each tensor
  std::size_t count, step;             // of the images; the step of the output is 1
};

/// The positions x of a window for which x * stride + offset is in [0, extent).
struct Span {
  std::int64_t begin, end;
};
Span inside(std::int64_t positions, std::int64_t stride, std::int64_t offset, std::int64_t extent) {
  const std::int64_t begin = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const std::int64_t end = extent > offset ? (extent - offset + stride - 1) / stride : 0;
  return {begin, std::min(positions, std::max(begin, end))};
}

/// Calls function(Row) for all products of the convolution, a row at a time.
template <typename Function>
void for_each_row(const Convolution& c, Function function) {
  const auto [batch, in, height, width] = c.images.extents;
  const std::int64_t out = c.output.extents[1], rows = c.output.extents[2],
                     columns = c.output.extents[3];
  const auto [down, right] = c.window.size;
  const Window::Pair &padding = c.window.padding, &stride = c.window.stride,
                     &dilation = c.window.dilation;
  for (std::int64_t n = 0; n < batch; ++n)
    for (std::int64_t o = 0; o < out; ++o)
      for (std::int64_t i = 0; i < in; ++i)
        for (std::int64_t ky = 0; ky < down; ++ky)
          for (std::int64_t kx = 0; kx < right; ++kx) {
            const std::int64_t over = ky * dilation[0] - padding[0],
                               left = kx * dilation[1] - padding[1];
            const Span across = inside(columns, stride[1], left, width);
            const Span along = inside(rows, stride[0], over, height);
            if (across.begin >= across.end) continue;
            for (std::int64_t y = along.begin; y < along.end; ++y) {
              const std::int64_t from = ((n * in + i) * height + y * stride[0] + over) * width +
                                        across.begin * stride[1] + left;
              function(
                  Row{static_cast<std::size_t>(((n * out + o) * rows + y) * columns + across.begin),
                      static_cast<std::size_t>(from),
                      static_cast<std::size_t>(((o * in + i) * down + ky) * right + kx),
                      static_cast<std::size_t>(across.end - across.begin),
                      static_cast<std::size_t>(stride[1])});
            }
          }
}

std::vector<float> factors(const Tensor& tensor, const void* data, const Precision& precision) {
  std::vector<float> values = tensor.load(data);
  if (precision.has_tf32)
    for (float& value : values) value = as_tf32(value);
  return values;
}

std::vector<float> forward(const Convolution& c, const std::vector<float>& images,
                           const std::vector<float>& filter) {
  std::vector<float> output(c.output.count());
  for_each_row(c, [&](const Row& row) {
    const float factor = filter[row.filter];
    for (std::size_t x = 0; x < row.count; ++x)
      output[row.output + x] += factor * images[row.images + x * row.step];
  });
  return output;
}

std::vector<float> backward_data(const Convolution& c, const std::vector<float>& filter,
                                 const std::vector<float>& output) {
  std::vector<float> images(c.images.count());
  for_each_row(c, [&](const Row& row) {
    const float factor = filter[row.filter];
    for (std::size_t x = 0; x < row.count; ++x)
      images[row.images + x * row.step] += factor * output[row.output + x];
  });
  return images;
}

std::vector<float> backward_filter(const Convolution& c, const std::vector<float>& images,
                                   const std::vector<float>& output) {
  std::vector<float> filter(c.filter.count());
  for_each_row(c, [&](const Row& row) {
    float sum = 0;
    for (std::size_t x = 0; x < row.count; ++x)
      sum += images[row.images + x * row.step] * output[row.output + x];
    filter[row.filter] += sum;
  });
  return filter;
}

std::vector<float> products(const Convolution& c, const ConvolutionOperands& operands,
                            const Precision& precision) {
  const auto first = factors(c.first(), operands.first, precision);
  const auto second = factors(c.second(), operands.second, precision);
  if (c.direction == Direction::kForward) return forward(c, first, second);
  if (c.direction == Direction::kBackwardData) return backward_data(c, first, second);
  return backward_filter(c, first, second);
}

void change_last_bits(std::vector<float>& values) {
  static std::atomic<int> runs{0};
  if (runs++ % 2 == 0) return;
  for (float& value : values) value = std::nextafter(value, INFINITY);
}

}  // namespace

const Tensor& Convolution::first() const {
  return direction == Direction::kBackwardData ? filter : images;
}

const Tensor& Convolution::second() const {
  return direction == Direction::kForward ? filter : output;
}

const Tensor& Convolution::result() const {
  if (direction == Direction::kForward) return output;
  return direction == Direction::kBackwardData ? images : filter;
}

void Convolution::check(const std::function<void(const std::string&)>& violate) const {
  if (!images.is_known() || images.type != filter.type || images.type != output.type)
    violate("the tensors have different types, or one that the fake does not support");
  if (filter.extents[1] != images.extents[1])
    violate(fmt::format("the filter has {} input channels, and the images {}", filter.extents[1],
                        images.extents[1]));
  const Extents expected = window.output(images.extents, filter.extents[0]);
  if (output.extents != expected)
    violate(fmt::format("the output is [{}], and the convolution gives [{}]",
                        fmt::join(output.extents, ", "), fmt::join(expected, ", ")));
}

void compute(const Convolution& convolution, const ConvolutionOperands& operands,
             const Precision& precision, float alpha, float beta) {
  std::vector<float> values = products(convolution, operands, precision);
  if (!precision.is_deterministic) change_last_bits(values);
  convolution.result().store(operands.result, values, alpha, beta);
}

}  // namespace horo::fakes::dnn
