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

GradientSyncOptions sync_options(const ExchangeOptions& options) {
  GradientSyncOptions sync{.name = "train.gradients",
                           .op = options.op,
                           .compression = options.compression,
                           .backward_passes_per_step = options.passes,
                           .clip_norm = options.clip_norm,
                           .check_finite = options.check_finite};
  if (options.op == ReduceOp::kAverage) sync.metrics = {"train.loss"};
  return sync;
}

}  // namespace

GradientExchange::GradientExchange(Context& context, const std::vector<Parameter*>& parameters,
                                   const ExchangeOptions& options)
    : parameters_(parameters),
      passes_(options.passes),
      loss_(Shape{1}),
      sync_(context, list_tensors(context, parameters, loss_, options.op), sync_options(options)) {
  if (options.op != ReduceOp::kAverage)
    loss_sync_.emplace(context, std::vector<NamedTensor>{{"train.loss", loss_.view()}},
                       GradientSyncOptions{.name = "train.loss"});
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    index_of_[parameters[i]] = i;
    if (passes_ > 1) sums_.push_back(Tensor::zeros(parameters[i]->gradient.shape()));
  }
}

void GradientExchange::loss_ready(double loss) {
  loss_sum_ += loss;
  *loss_.data() = static_cast<float>(loss_sum_);
  if (!loss_sync_)
    sync_.ready(index_of_.size());
  else if (is_last_pass())
    loss_sync_->ready(0);
}

void GradientExchange::gradient_ready(const Parameter& parameter) {
  const auto found = index_of_.find(&parameter);
  HORO_CHECK(found != index_of_.end(),
             fmt::format("parameter '{}' is not among the registered ones", parameter.name));
  if (!sums_.empty()) {
    // The passes are added from the first to the last; the last sum is where it is exchanged.
    const std::span<float> sum = sums_[found->second].values();
    const std::span<float> own = parameters_[found->second]->gradient.values();
    const std::span<float> to = is_last_pass() ? own : sum;
    for (std::size_t i = 0; i < own.size(); ++i) to[i] = sum[i] + own[i];
  }
  sync_.ready(found->second);
}

void GradientExchange::end_pass() {
  sync_.wait();
  ++pass_;
}

float GradientExchange::wait() {
  report_ = &sync_.wait();
  if (loss_sync_) loss_sync_->wait();
  for (Tensor& sum : sums_) sum.fill(0);
  pass_ = 0;
  loss_sum_ = 0;
  return *loss_.data();
}

}  // namespace horo::ops
