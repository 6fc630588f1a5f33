#include "ops/train/gradient_exchange.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "horo/base/log.h"

namespace horo::ops {

namespace {

// Tensors are aligned to cache lines, which have the size of the widest vector registers.
constexpr std::size_t kLine = 64;

std::size_t bytes_of(const Tensor& tensor) {
  return (tensor.count() * sizeof(float) + kLine - 1) / kLine * kLine;
}

}  // namespace

// Moves the gradients into memory that all ranks of a node map. The exchange inside a node then
// reads them in place, without a copy into a staging buffer. Collective, because
// Context::allocate() is. A failure is not fatal: the gradients then stay where they are, and the
// exchange uses a staging copy.
void move_to_arena(Context& context, std::span<Tensor* const> tensors) {
  std::size_t bytes = kLine;  // an arena cannot be empty
  for (const Tensor* tensor : tensors) bytes += bytes_of(*tensor);
  if (context.size() == context.node_count()) return;  // no rank shares its node
  try {
    const auto arena = std::make_shared<Arena>(context.allocate(bytes));
    for (Tensor* tensor : tensors) {
      void* memory = arena->resource()->allocate(bytes_of(*tensor), kLine);
      Tensor moved(tensor->shape(), DataType::kFloat32, static_cast<std::byte*>(memory), arena);
      std::ranges::copy(tensor->values(), moved.data());
      *tensor = std::move(moved);
    }
  } catch (const SharedMemoryError& error) {
    if (context.rank() == 0)
      log_warning("gradients are exchanged through a staging copy: {}", error.what());
  }
}

namespace {

// In forward order, since a plan fills its buckets from the last tensor to the first. The loss is
// ready first and therefore comes last.
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
  // Averaged gradients and the loss share one plan. Adasum is not linear, so the loss
  // then has a plan of its own. It counts no passes and is submitted in the last pass only.
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
    // Passes are added in order, so that the sum has the same bits every time. The final sum is
    // written into the exchanged tensor.
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
