#include "ops/parallel/collective_layers.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "horo/base/error.h"

namespace horo::ops {
namespace {

Shape with_rows(const Shape& shape, std::size_t rows) {
  std::vector<std::size_t> dimensions = shape.dimensions();
  dimensions.front() = rows;
  return Shape(std::move(dimensions));
}

}  // namespace

CollectiveLayer::CollectiveLayer(Context& group, std::string name)
    : group_(group), name_(std::move(name)) {
  HORO_CHECK(!name_.empty(), "a layer with a collective needs a name");
}

std::string CollectiveLayer::operation_name(PassKind pass) const {
  return name_ + (pass == PassKind::kForward ? ".forward" : ".backward");
}

void* CollectiveLayer::stream() {
  device::Stream* const stream = backend().device_stream();
  return stream == nullptr ? nullptr : stream->native();
}

// On a device, later work of the stream starts after the operation, and the host does not wait.
void CollectiveLayer::finish(const Handle& handle) {
  if (void* const later = stream())
    handle.wait_on(later);
  else
    handle.wait();
}

Tensor CollectiveLayer::sum(Tensor x, PassKind pass) {
  Tensor result = x.is_unique() ? x.shared() : backend().allocate(x.shape(), x.type());
  finish(group_.allreduce_async(
      x.view(), result.view(),
      {.name = operation_name(pass), .op = ReduceOp::kSum, .stream = stream()}));
  return result;
}

Tensor CollectiveLayer::gather_rows(Tensor x, PassKind pass) {
  HORO_CHECK(x.shape().rank() > 0, fmt::format("{}: the tensor has no rows", operation_name(pass)));
  const std::size_t rows = x.shape()[0] * static_cast<std::size_t>(group_.size());
  Tensor all = backend().allocate(with_rows(x.shape(), rows), x.type());
  finish(group_.allgather_async(x.view(), all.view(),
                                {.name = operation_name(pass), .stream = stream()}));
  return all;
}

Tensor CollectiveLayer::scatter_rows(Tensor x, PassKind pass) {
  const auto ranks = static_cast<std::size_t>(group_.size());
  HORO_CHECK(x.shape().rank() > 0 && x.shape()[0] % ranks == 0,
             fmt::format("{}: the rows of {} cannot be divided evenly among {} ranks",
                         operation_name(pass), x.shape().to_string(), ranks));
  Tensor own = backend().allocate(with_rows(x.shape(), x.shape()[0] / ranks), x.type());
  finish(group_.reduce_scatter_async(
      x.view(), own.view(),
      {.name = operation_name(pass), .op = ReduceOp::kSum, .stream = stream()}));
  return own;
}

Tensor Allreduce::forward(Tensor input, const Pass&) {
  return sum(std::move(input), PassKind::kForward);
}
Tensor Allreduce::backward(Tensor output_gradient, const GradientReady&) {
  return sum(std::move(output_gradient), PassKind::kBackward);
}

Tensor AllreduceInForward::forward(Tensor input, const Pass&) {
  return sum(std::move(input), PassKind::kForward);
}
Tensor AllreduceInForward::backward(Tensor output_gradient, const GradientReady&) {
  return output_gradient;
}

Tensor AllreduceInBackward::forward(Tensor input, const Pass&) { return input; }
Tensor AllreduceInBackward::backward(Tensor output_gradient, const GradientReady&) {
  if (output_gradient.count() == 0) return output_gradient;
  return sum(std::move(output_gradient), PassKind::kBackward);
}

Tensor AllgatherRows::forward(Tensor input, const Pass&) {
  return gather_rows(std::move(input), PassKind::kForward);
}
Tensor AllgatherRows::backward(Tensor output_gradient, const GradientReady&) {
  return scatter_rows(std::move(output_gradient), PassKind::kBackward);
}

Tensor ReduceScatterRows::forward(Tensor input, const Pass&) {
  return scatter_rows(std::move(input), PassKind::kForward);
}
Tensor ReduceScatterRows::backward(Tensor output_gradient, const GradientReady&) {
  return gather_rows(std::move(output_gradient), PassKind::kBackward);
}

}  // namespace horo::ops
