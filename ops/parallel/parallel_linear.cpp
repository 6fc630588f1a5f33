#include "ops/parallel/parallel_linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "horo/base/error.h"
#include "ops/nn/initialise.h"

namespace horo::ops {
namespace {

std::size_t part(std::size_t features, std::size_t parts, const char* which,
                 const std::string& name) {
  HORO_CHECK(features % parts == 0,
             fmt::format("{}: {} {} features cannot be divided evenly among {} ranks", name,
                         features, which, parts));
  return features / parts;
}

// Copies columns [first, first + count) of `whole` [rows, ...].
Tensor columns_of(const Tensor& whole, std::size_t first, std::size_t count) {
  const std::size_t rows = whole.shape()[0], width = whole.shape()[1];
  Tensor columns({rows, count});
  for (std::size_t row = 0; row < rows; ++row)
    std::copy_n(whole.data() + row * width + first, count, columns.data() + row * count);
  return columns;
}

}  // namespace

ParallelLinear::ParallelLinear(Context& group, const LinearOptions& whole, const Division& division,
                               std::string name)
    : group_(group),
      whole_(whole),
      name_(std::move(name)),
      shard_({.in_features = part(whole.in_features, division.in_parts, "input", name_),
              .out_features = part(whole.out_features, division.out_parts, "output", name_),
              .bias = division.has_bias,
              .input_gradient = whole.input_gradient}) {}

void ParallelLinear::initialise_shard() {
  shard_.weight().value =
      part_of_weight(make_parameter("weight", {whole_.out_features, whole_.in_features}).value);
}

void ParallelLinear::load(const Tensor& weight, const Tensor& bias) {
  HORO_CHECK(backend().device_stream() == nullptr,
             fmt::format("{}: load() is for layers in host memory", name_));
  HORO_CHECK(weight.shape() == Shape({whole_.out_features, whole_.in_features}) &&
                 (!whole_.bias || bias.shape() == Shape{whole_.out_features}),
             fmt::format("{}: load() got a weight {} and a bias {} for {} output and {} input "
                         "features",
                         name_, weight.shape().to_string(), bias.shape().to_string(),
                         whole_.out_features, whole_.in_features));
  const Tensor own_weight = part_of_weight(weight);
  std::ranges::copy(own_weight.values(), this->weight().value.values().begin());
  if (this->bias().value.count() > 0)
    std::ranges::copy(part_of_bias(bias).values(), this->bias().value.values().begin());
}

ColumnParallelLinear::ColumnParallelLinear(Context& group, const LinearOptions& whole,
                                           const std::string& name)
    : ParallelLinear(group, whole,
                     {.out_parts = static_cast<std::size_t>(group.size()), .has_bias = whole.bias},
                     name),
      input_(group, name) {
  initialise_shard();
}

Tensor ColumnParallelLinear::forward(Tensor input, const Pass& pass) {
  return shard_.forward(input_.forward(std::move(input), pass), pass);
}

Tensor ColumnParallelLinear::backward(Tensor output_gradient, const GradientReady& ready) {
  return input_.backward(shard_.backward(std::move(output_gradient), ready), ready);
}

Tensor ColumnParallelLinear::part_of_weight(const Tensor& whole) const {
  const std::size_t rows = shard_.options().out_features;
  return whole.rows(rows * static_cast<std::size_t>(group_.rank()), rows).clone();
}

Tensor ColumnParallelLinear::part_of_bias(const Tensor& whole) const {
  const std::size_t rows = shard_.options().out_features;
  return whole.rows(rows * static_cast<std::size_t>(group_.rank()), rows).clone();
}

Tensor ColumnParallelLinear::gather_weight() {
  Tensor own = backend().to_host(weight().value);
  Tensor whole({whole_.out_features, whole_.in_features});
  group_.allgather(own.view(), whole.view(), {.name = name_ + ".weight"});
  return whole;
}

RowParallelLinear::RowParallelLinear(Context& group, const LinearOptions& whole,
                                     const std::string& name)
    : ParallelLinear(group, whole,
                     {.in_parts = static_cast<std::size_t>(group.size()),
                      .has_bias = whole.bias && group.rank() == 0},
                     name),
      output_(group, name) {
  initialise_shard();
}

Tensor RowParallelLinear::forward(Tensor input, const Pass& pass) {
  return output_.forward(shard_.forward(std::move(input), pass), pass);
}

Tensor RowParallelLinear::backward(Tensor output_gradient, const GradientReady& ready) {
  return shard_.backward(output_.backward(std::move(output_gradient), ready), ready);
}

Tensor RowParallelLinear::part_of_weight(const Tensor& whole) const {
  const std::size_t columns = shard_.options().in_features;
  return columns_of(whole, columns * static_cast<std::size_t>(group_.rank()), columns);
}

Tensor RowParallelLinear::part_of_bias(const Tensor& whole) const { return whole.clone(); }

Tensor RowParallelLinear::gather_weight() {
  const std::size_t rows = whole_.out_features, columns = shard_.options().in_features;
  const auto ranks = static_cast<std::size_t>(group_.size());
  Tensor own = backend().to_host(weight().value);
  Tensor parts({ranks * rows, columns}), whole({rows, whole_.in_features});
  group_.allgather(own.view(), parts.view(), {.name = name_ + ".weight"});
  for (std::size_t rank = 0; rank < ranks; ++rank)
    for (std::size_t row = 0; row < rows; ++row)
      std::copy_n(parts.data() + (rank * rows + row) * columns, columns,
                  whole.data() + row * whole_.in_features + rank * columns);
  return whole;
}

}  // namespace horo::ops
