#include "ops/train/gradient_exchange.h"

#include <fmt/core.h>

#include "ops/train/arena_tensors.h"

namespace horo::ops {

namespace {

// In forward order, so that the plan is in the order of backward; the loss, known first, comes
// last.
std::vector<NamedTensor> list_tensors(Context& context, const std::vector<Parameter*>& parameters,
                                      Tensor& loss, ReduceOp op) {
  std::vector<Tensor*> memory = {&loss};
  for (Parameter* parameter : parameters) memory.push_back(&parameter->gradient);
  move_to_arena(context, memory);
  std::vector<NamedTensor> tensors;
  for (Parameter* parameter : parameters)
    tensors.push_back({parameter->name, parameter->gradient.view()});
  if (op == ReduceOp::kAverage) tensors.push_back({"train.loss", loss.view()});
  return tensors;
}

}  // namespace

GradientExchange::GradientExchange(Context& context, const std::vector<Parameter*>& parameters,
                                   const ExchangeOptions& options)
    : loss_(Shape{1}),
      sync_(context, list_tensors(context, parameters, loss_, options.op),
            {.name = "train.gradients", .op = options.op, .compression = options.compression}) {
  if (options.op != ReduceOp::kAverage)
    loss_sync_.emplace(context, std::vector<NamedTensor>{{"train.loss", loss_.view()}},
                       GradientSyncOptions{.name = "train.loss"});
  for (std::size_t i = 0; i < parameters.size(); ++i) index_of_[parameters[i]] = i;
}

void GradientExchange::loss_ready(double loss) {
  *loss_.data() = static_cast<float>(loss);
  if (loss_sync_)
    loss_sync_->ready(0);
  else
    sync_.ready(index_of_.size());
}

void GradientExchange::gradient_ready(const Parameter& parameter) {
  const auto found = index_of_.find(&parameter);
  HORO_CHECK(found != index_of_.end(),
             fmt::format("parameter '{}' is not among the registered ones", parameter.name));
  sync_.ready(found->second);
}

float GradientExchange::wait() {
  sync_.wait();
  if (loss_sync_) loss_sync_->wait();
  return *loss_.data();
}

}  // namespace horo::ops
