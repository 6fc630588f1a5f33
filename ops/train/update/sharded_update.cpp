#include "ops/train/update/sharded_update.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "horo/base/text/log.h"
#include "horo/base/text/quantity.h"

namespace horo::ops {
namespace {

constexpr std::size_t kAlignedFloats = GradientBlock::kAlignment / sizeof(float);

/// Elements from `first` on of a tensor of one dimension, with their memory.
Tensor part_of(const Tensor& whole, std::size_t first, const Shape& shape) {
  return whole.rows(first, shape.count()).reshaped(shape);
}

/// Copies `values` to rows from `first` on, and returns a tensor there in its place.
Tensor moved_into(const Tensor& block, std::size_t first, const Tensor& values) {
  Tensor moved = part_of(block, first, values.shape());
  std::copy_n(values.raw(), values.bytes(), moved.raw());
  return moved;
}

}  // namespace

ShardedUpdate::ShardedUpdate(Context& context, Optimizer& optimizer, GradientSync& scalar_sync,
                             const StepScalars& scalars, const ShardedUpdateOptions& options)
    : context_(context),
      optimizer_(optimizer),
      scalar_sync_(scalar_sync),
      scalars_(scalars),
      options_(options),
      wholes_(optimizer.parameters().begin(), optimizer.parameters().end()),
      bucket_of_(wholes_.size()) {
  plan_buckets();
  for (Bucket& bucket : buckets_) {
    allocate(bucket);
    add_parts(bucket);
  }
  optimizer_.divide(divided_);
}

ShardedUpdate::~ShardedUpdate() {
  if (is_finished_) return;
  log_warning("training ended early: the state of the sharded optimizer is set to zero");
  std::vector<std::vector<Tensor>> states(optimizer_.states().size());
  for (auto& state : states)
    for (const Parameter* whole : wholes_) state.push_back(Tensor::zeros(whole->value.shape()));
  optimizer_.unite(std::move(states));
}

// Backward computes the gradients from the last layer to the first.
void ShardedUpdate::plan_buckets() {
  const std::size_t limit = options_.bucket_bytes / sizeof(float);
  for (std::size_t i = wholes_.size(); i-- > 0;) {
    const std::size_t count = round_up(wholes_[i]->value.count(), kAlignedFloats);
    if (buckets_.empty() || buckets_.back().rows + count > limit)
      buckets_.push_back({.name = fmt::format("train.shard.{}", buckets_.size())});
    Bucket& bucket = buckets_.back();
    bucket_of_[i] = buckets_.size() - 1;
    bucket.members.push_back({i, bucket.rows});
    bucket.rows += count;
  }
}

void ShardedUpdate::allocate(Bucket& bucket) {
  bucket.gradients = Tensor::zeros({bucket.rows});
  bucket.values = Tensor::zeros({bucket.rows});
  for (const Member& member : bucket.members) {
    Parameter& whole = *wholes_[member.parameter];
    whole.value = moved_into(bucket.values, member.first, whole.value);
    whole.gradient = moved_into(bucket.gradients, member.first, whole.gradient);
  }
  bucket.missing = bucket.members.size();
}

// The shares of the ranks are those of Context::reduce_scatter().
void ShardedUpdate::add_parts(Bucket& bucket) {
  const auto size = static_cast<std::size_t>(context_.size());
  const auto rank = static_cast<std::size_t>(context_.rank());
  const std::size_t own = context_.shard_rows(bucket.rows);
  bucket.own_first = bucket.rows / size * rank + std::min(rank, bucket.rows % size);
  bucket.reduced = Tensor::zeros({own});
  bucket.first_part = parts_.size();
  for (const Member& member : bucket.members) {
    const Parameter& whole = *wholes_[member.parameter];
    const std::size_t begin = std::max(member.first, bucket.own_first);
    const std::size_t end = std::min(member.first + whole.value.count(), bucket.own_first + own);
    if (begin >= end) continue;
    const std::size_t first = begin - member.first, count = end - begin;
    Parameter& part = parts_.emplace_back();
    part.name = fmt::format("{}[{}:{}]", whole.name, first, first + count);
    part.value = part_of(bucket.values, begin, {count});
    part.gradient = part_of(bucket.reduced, begin - bucket.own_first, {count});
    divided_.push_back({member.parameter, first, &part});
  }
}

void ShardedUpdate::ready(std::size_t index) {
  if (index == wholes_.size()) return scalar_sync_.ready(0);
  Bucket& bucket = buckets_[bucket_of_[index]];
  if (--bucket.missing > 0) return;
  bucket.missing = bucket.members.size();
  bucket.operation = context_.reduce_scatter_async(bucket.gradients.view(), bucket.reduced.view(),
                                                   {.name = bucket.name + ".gradients"});
}

void ShardedUpdate::exchange() {
  scalar_sync_.wait();
  for (const Bucket& bucket : buckets_) bucket.operation.wait();
}

void ShardedUpdate::update() {
  const StepOutcome& outcome = outcomes_.emplace_back(examine());
  if (!outcome.why_skipped.empty()) return;
  optimizer_.step();
  gather_values();
}

// The sum over the ranks has the same bits on all of them, so that they decide alike.
StepOutcome ShardedUpdate::examine() {
  StepOutcome outcome{.loss = scalars_.loss, .requests = scalars_.requests};
  if (!options_.clip_norm && !options_.check_finite) return outcome;
  std::vector<double> sums{0};
  for (const Parameter& part : parts_)
    for (const float gradient : part.gradient.values())
      sums[0] += static_cast<double>(gradient) * static_cast<double>(gradient);
  context_.allreduce(TensorView(sums), {.name = "train.shard.norm", .op = ReduceOp::kSum});
  const double norm = std::sqrt(sums[0]);
  if (!std::isfinite(norm) || !std::isfinite(outcome.loss)) {
    if (options_.check_finite)
      outcome.why_skipped = std::isfinite(norm)
                                ? fmt::format("the loss is {}", outcome.loss)
                                : fmt::format("the norm of the reduced gradients is {}", norm);
  } else if (options_.clip_norm && norm > *options_.clip_norm) {
    scale_gradients(*options_.clip_norm / norm);
    outcome.was_clipped = true;
  }
  return outcome;
}

void ShardedUpdate::scale_gradients(double factor) {
  for (Parameter& part : parts_)
    for (float& gradient : part.gradient.values()) gradient *= static_cast<float>(factor);
}

void ShardedUpdate::gather_values() {
  for (Bucket& bucket : buckets_) {
    Tensor own = part_of(bucket.values, bucket.own_first, bucket.reduced.shape());
    bucket.operation = context_.allgather_async(own.view(), bucket.values.view(),
                                                {.name = bucket.name + ".values"});
  }
  for (const Bucket& bucket : buckets_) bucket.operation.wait();
}

std::vector<StepOutcome> ShardedUpdate::outcomes(bool /*all*/) {
  return std::exchange(outcomes_, {});
}

std::vector<std::size_t> ShardedUpdate::bucket_elements() const {
  std::vector<std::size_t> elements;
  for (const Bucket& bucket : buckets_) elements.push_back(bucket.rows);
  return elements;
}

/// `parts`: a state of the parameters of this rank. Returns that of the whole bucket.
Tensor ShardedUpdate::gather_state(Bucket& bucket, std::span<Tensor> parts) {
  Tensor own = Tensor::zeros(bucket.reduced.shape()), all({bucket.rows});
  for (std::size_t p = bucket.first_part; p < parts_.size(); ++p) {
    const ParameterPart& part = divided_[p];
    if (&buckets_[bucket_of_[part.whole]] != &bucket) break;
    const auto member = std::ranges::find(bucket.members, part.whole, &Member::parameter);
    const Tensor& values = parts[p];
    std::copy_n(values.data(), values.count(),
                own.data() + (member->first + part.first - bucket.own_first));
  }
  context_.allgather(own.view(), all.view(), {.name = bucket.name + ".state"});
  return all;
}

void ShardedUpdate::finish() {
  std::vector<std::vector<Tensor>> states;
  for (const Optimizer::State& state : optimizer_.states()) {
    std::vector<Tensor>& wholes = states.emplace_back(wholes_.size());
    for (Bucket& bucket : buckets_) {
      const Tensor all = gather_state(bucket, state.tensors);
      for (const Member& member : bucket.members) {
        const Tensor& like = wholes_[member.parameter]->value;
        wholes[member.parameter] = part_of(all, member.first, like.shape()).clone();
      }
    }
  }
  optimizer_.unite(std::move(states));
  is_finished_ = true;
}

}  // namespace horo::ops
