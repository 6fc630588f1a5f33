#include "ops/parallel/pipeline_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "horo/base/error.h"

namespace horo::ops {
namespace {

constexpr const char* kActivation = "activation";
constexpr const char* kGradient = "gradient";

}  // namespace

std::vector<PipelinePass> one_forward_one_backward(std::size_t stage, std::size_t stages,
                                                   std::size_t micro_batches) {
  using Kind = PipelinePass::Kind;
  const std::size_t ahead = std::min(stages - stage - 1, micro_batches);
  std::vector<PipelinePass> passes;
  for (std::size_t k = 0; k < ahead; ++k) passes.push_back({Kind::kForward, k});
  for (std::size_t k = 0; k < micro_batches; ++k) {
    if (k + ahead < micro_batches) passes.push_back({Kind::kForward, k + ahead});
    passes.push_back({Kind::kBackward, k});
  }
  return passes;
}

PipelineStage::PipelineStage(Context& context, Layer& layer, const PipelineStageOptions& options)
    : context_(context),
      layer_(layer),
      options_(options),
      passes_(one_forward_one_backward(options.stage, std::max(options.stages, options.stage + 1),
                                       options.micro_batches)) {
  HORO_CHECK(options.stage < options.stages,
             fmt::format("pipeline '{}': stage {} is not one of the {} stages", options.name,
                         options.stage, options.stages));
  HORO_CHECK(options.micro_batches > 0,
             fmt::format("pipeline '{}': a step needs at least one micro-batch", options.name));
  HORO_CHECK(
      layer.buffers().empty(),
      fmt::format("pipeline '{}': the stage has running statistics ('{}'), which the "
                  "repeated forward pass would update twice",
                  options.name, layer.buffers().empty() ? "" : layer.buffers().front()->name));
  HORO_CHECK(layer.backend().device_stream() == nullptr,
             fmt::format("pipeline '{}': the stages must be in host memory", options.name));
}

double PipelineStage::run(const MakeTensor& input, const MakeTensor& target, const Loss& loss,
                          double samples, const Pass& pass) {
  std::map<std::size_t, Tensor> inputs;  // of the micro-batches in flight
  Tensor output;                         // of the last stage, between forward and backward
  double loss_sum = 0;
  sums_.clear();
  for (const PipelinePass& each : passes_) {
    if (each.kind == PipelinePass::Kind::kForward) {
      Tensor x = is_first() ? input(each.micro_batch)
                            : receive(options_.input_shape, kActivation, options_.previous);
      if (is_last()) {
        output = layer_.forward(std::move(x), pass);
        continue;
      }
      inputs[each.micro_batch] = x.clone();  // a layer may overwrite its input
      output = layer_.forward(std::move(x), pass);
      send(std::move(output), kActivation, options_.next);
      continue;
    }
    Tensor gradient;
    if (is_last()) {
      BatchScore score;
      float mean = 0;
      gradient = loss.backward(layer_.backend(), std::move(output), target(each.micro_batch),
                               samples, &score, &mean);
      loss_sum += static_cast<double>(mean);
    } else {
      auto stored = inputs.extract(each.micro_batch);
      const Tensor again = layer_.forward(std::move(stored.mapped()), pass);
      gradient = receive(again.shape(), kGradient, options_.next);
    }
    gradient = layer_.backward(std::move(gradient), {});
    add_gradients();
    if (!is_first()) send(std::move(gradient), kGradient, options_.previous);
  }
  for (const Handle& handle : std::exchange(sends_, {})) handle.wait();
  std::size_t index = 0;
  for (Parameter* parameter : layer_.parameters())
    std::ranges::copy(sums_[index++], parameter->gradient.values().begin());
  return loss_sum;
}

// The callback keeps the tensor until it has been sent. Messages of one name arrive in the order in
// which they were sent, which is that of the micro-batches in all stages.
void PipelineStage::send(Tensor tensor, const char* what, int to) {
  const auto kept = std::make_shared<Tensor>(std::move(tensor));
  const Handle& sent = sends_.emplace_back(
      context_.send_async(kept->view(), {.name = options_.name + "." + what, .to = to}));
  sent.then([kept](const std::exception_ptr&) {});
}

Tensor PipelineStage::receive(const Shape& shape, const char* what, int from) {
  Tensor tensor(shape);
  context_.recv(tensor.view(), {.name = options_.name + "." + what, .from = from});
  return tensor;
}

void PipelineStage::add_gradients() {
  const std::vector<Parameter*> parameters = layer_.parameters();
  sums_.resize(parameters.size());
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const auto gradient = parameters[p]->gradient.values();
    sums_[p].resize(gradient.size());
    for (std::size_t i = 0; i < gradient.size(); ++i) sums_[p][i] += gradient[i];
  }
}

}  // namespace horo::ops
