#include "ops/train/step/graphed_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace horo::ops {
namespace {

Batch shared(const Batch& batch) {
  return map_tensors(batch, [](const Tensor& tensor) { return tensor.shared(); });
}

Batch allocate_like(Backend& backend, const Batch& batch) {
  return map_tensors(
      batch, [&](const Tensor& part) { return backend.allocate(part.shape(), part.type()); });
}

}  // namespace

// A captured step has the usual number of samples, not the smaller number of a padded last step.
bool GraphedSteps::is_next(double samples) {
  if (graph_) return graph_->samples == samples;
  most_samples_ = std::max(most_samples_, samples);
  return plain_steps_-- <= 0 && samples == most_samples_;
}

void GraphedSteps::run(const Batch& batch, const Pass& pass, double samples) {
  if (!graph_) capture(batch, pass, samples);
  device::Stream& stream = step_.device_backend()->stream();
  const auto copy = [&](Tensor& to, const Tensor& from) {
    HORO_CHECK(from.shape() == to.shape(),
               fmt::format("a step as a graph: a part of the batch has the shape {}; it was {} in "
                           "the capture",
                           from.shape().to_string(), to.shape().to_string()));
    stream.copy(to.raw(), from.raw(), to.bytes());
  };
  copy(graph_->batch.inputs, batch.inputs);
  copy(graph_->batch.targets, batch.targets);
  copy(graph_->batch.samples, batch.samples);
  if (graph_->batch.crops) copy(*graph_->batch.crops, batch.crops.value());
  graph_->step.launch();
}

// Forward and backward allocate in the capture, so that the graph owns the activations.
void GraphedSteps::capture(const Batch& batch, const Pass& pass, double samples) {
  Batch fixed = allocate_like(step_.backend(), batch);
  StepGraph graph = step_.sync().capture(step_.device_backend()->stream().native(), [&] {
    Batch read = shared(fixed);
    Tensor output = step_.forward(read, pass);
    step_.backward(std::move(output), read, samples);
    step_.exchange();
    step_.update();
  });
  graph_.emplace(Graph{samples, std::move(fixed), std::move(graph)});
}

void GraphedSteps::discard() {
  if (!graph_) return;
  graph_.reset();
  plain_steps_ = 1;
}

}  // namespace horo::ops
