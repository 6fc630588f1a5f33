#include "horo/adapters/torch/sync_batch_norm.h"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <utility>
#include <vector>

#include "horo/adapters/torch/current_stream.h"
#include "horo/adapters/torch/tensor_view.h"
#include "horo/base/error.h"

namespace horo::libtorch {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::variable_list;

/// The type of statistics and of computations on `input`.
at::ScalarType statistics_type(const at::Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// The axes of [samples, features, ...] over which the statistics are computed.
std::vector<std::int64_t> axes_of_samples(const at::Tensor& input) {
  std::vector<std::int64_t> axes = {0};
  for (std::int64_t axis = 2; axis < input.dim(); ++axis) axes.push_back(axis);
  return axes;
}

/// `per_feature` [features] in the shape [1, features, 1, ...], to combine it with `input`.
at::Tensor broadcastable(const at::Tensor& per_feature, const at::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = per_feature.numel();
  return per_feature.view(shape);
}

/// Statistics per feature, of all ranks.
struct Statistics {
  at::Tensor mean;      // float64 [features]
  at::Tensor variance;  // float64 [features], biased
  at::Tensor count;     // float64 [1]: values per feature
};

/// float64 [1, 2 * features + 1]: the means, the variances and the number of values of this rank.
at::Tensor local_statistics(const at::Tensor& input) {
  const std::int64_t features = input.size(1);
  const std::int64_t count = input.numel() / std::max<std::int64_t>(features, 1);
  at::Tensor result =
      at::zeros({1, 2 * features + 1}, input.options().dtype(at::kDouble).requires_grad(false));
  if (count == 0) return result;
  const auto [variance, mean] =
      at::var_mean(input.to(statistics_type(input)), axes_of_samples(input), /*unbiased=*/false);
  result.narrow(1, 0, features).copy_(mean.unsqueeze(0));
  result.narrow(1, features, features).copy_(variance.unsqueeze(0));
  result.narrow(1, 2 * features, 1).fill_(static_cast<double>(count));
  return result;
}

Statistics gather_statistics(const BatchNormExchange& exchange, const at::Tensor& input) {
  const std::int64_t features = input.size(1);
  const at::Tensor mine = local_statistics(input);
  const at::Tensor all = at::empty({exchange.context.get().size(), mine.size(1)}, mine.options());
  exchange.context.get().allgather(
      view_of(mine, exchange.gpu.get()), view_of(all, exchange.gpu.get()),
      {.name = exchange.name.empty() ? "" : exchange.name + ".statistics",
       .stream = current_stream(mine.device())});
  const at::Tensor means = all.narrow(1, 0, features);
  const at::Tensor variances = all.narrow(1, features, features);
  const at::Tensor counts = all.narrow(1, 2 * features, 1);
  const at::Tensor count = counts.sum().view({1});
  const at::Tensor mean = (means * counts).sum(0) / count;
  const at::Tensor variance = ((variances + (means - mean).square()) * counts).sum(0) / count;
  return {mean, variance, count};
}

/// Keeps a copy of the exchange for the backward pass, which may run after the layer is destroyed.
struct ExchangeOwner : ::torch::CustomClassHolder {
  explicit ExchangeOwner(const BatchNormExchange& given) : exchange(given) {}
  BatchNormExchange exchange;
};

/// output = (input - mean) * inverse_deviation * weight + bias, where mean and inverse_deviation
/// depend on the input of all ranks.
struct Normalize : ::torch::autograd::Function<Normalize> {
  // All tensors but `input` are [features]. The statistics have the type statistics_type(input).
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias, const at::Tensor& mean,
                            const at::Tensor& inverse_deviation, const at::Tensor& count,
                            const BatchNormExchange& exchange) {
    ctx->save_for_backward({input, weight, mean, inverse_deviation, count});
    ctx->saved_data["exchange"] =
        c10::IValue::make_capsule(c10::make_intrusive<ExchangeOwner>(exchange));
    const at::Tensor output =
        (input - broadcastable(mean, input)) * broadcastable(inverse_deviation * weight, input) +
        broadcastable(bias, input);
    return output.to(input.scalar_type());
  }

  // With x = (input - mean) * inverse_deviation and g = gradient of the output, for each feature:
  //   gradient of the input = (g - mean(g) - x * mean(g * x)) * inverse_deviation * weight
  // where the means are over the values of all ranks. The gradients of weight and bias are those
  // of this rank, as for every other parameter.
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1], &mean = saved[2], &inverse = saved[3],
                     &count = saved[4];
    const auto owner =
        c10::static_intrusive_pointer_cast<ExchangeOwner>(ctx->saved_data["exchange"].toCapsule());
    const std::int64_t features = input.size(1);
    const auto axes = axes_of_samples(input);

    const at::Tensor g = gradients[0].to(statistics_type(input));
    const at::Tensor x = (input - broadcastable(mean, input)) * broadcastable(inverse, input);
    const at::Tensor sums = at::cat({g.sum(axes), (g * x).sum(axes)}).contiguous();
    const at::Tensor means = sums.clone();
    const BatchNormExchange& exchange = owner->exchange;
    exchange.context.get().allreduce(
        view_of(means, exchange.gpu.get()),
        {.name = exchange.name.empty() ? "" : exchange.name + ".gradients",
         .op = ReduceOp::kSum,
         .stream = current_stream(means.device())});
    means.div_(count.to(means.scalar_type()));

    const at::Tensor of_input = (g - broadcastable(means.narrow(0, 0, features), input) -
                                 x * broadcastable(means.narrow(0, features, features), input)) *
                                broadcastable(inverse * weight, input);
    return {of_input.to(input.scalar_type()),
            sums.narrow(0, features, features).to(weight.scalar_type()),
            sums.narrow(0, 0, features).to(weight.scalar_type()),
            {},
            {},
            {},
            {}};
  }
};

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(BatchNormExchange exchange,
                                     const ::torch::nn::BatchNormOptions& given)
    : NormImplBase(given), exchange_(std::move(exchange)) {}

void SyncBatchNormImpl::_check_input_dim(const at::Tensor& input) {
  if (input.dim() >= 2 && input.size(1) == options.num_features() &&
      at::isFloatingType(input.scalar_type()))
    return;
  throw InvalidArgument(c10::str("SyncBatchNorm of ", options.num_features(),
                                 " features needs a floating point input [samples, ",
                                 options.num_features(), ", ...]; its shape is ", input.sizes(),
                                 " and its type ", at::toString(input.scalar_type())));
}

// Counts a batch, and returns the weight of its statistics in the running statistics.
double SyncBatchNormImpl::count_batch() {
  if (!is_training() || !options.track_running_stats()) return options.momentum().value_or(0);
  num_batches_tracked += 1;
  return options.momentum() ? *options.momentum() : 1 / num_batches_tracked.item<double>();
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  _check_input_dim(input);
  const double momentum = count_batch();
  const bool uses_batch = is_training() || !options.track_running_stats();
  if (!is_training() || exchange_.context.get().size() == 1)
    return ::torch::nn::functional::detail::batch_norm(input, running_mean, running_var, weight,
                                                       bias, uses_batch, momentum, options.eps());
  at::Tensor mean, inverse_deviation, count, scale = weight, offset = bias;
  {
    const c10::AutoGradMode no_graph(false);
    const Statistics batch = gather_statistics(exchange_, input);
    if (options.track_running_stats()) {
      const at::Tensor unbiased = batch.variance * batch.count / (batch.count - 1).clamp_min(1);
      running_mean.mul_(1 - momentum).add_(batch.mean.to(running_mean.scalar_type()), momentum);
      running_var.mul_(1 - momentum).add_(unbiased.to(running_var.scalar_type()), momentum);
    }
    const at::ScalarType type = statistics_type(input);
    mean = batch.mean.to(type);
    inverse_deviation = (batch.variance + options.eps()).rsqrt().to(type);
    count = batch.count;
    if (!options.affine()) {
      scale = at::ones_like(mean);
      offset = at::zeros_like(mean);
    }
  }
  return Normalize::apply(input, scale, offset, mean, inverse_deviation, count, exchange_);
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "horo::libtorch::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps()
         << ", affine=" << options.affine() << ")";
}

}  // namespace horo::libtorch
