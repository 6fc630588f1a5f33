// The functions of DevicePlanExchange that connect the devices and lay out the buckets.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "collectives/agreement.h"
#include "collectives/device/memory_spans.h"
#include "horo/base/error.h"
#include "horo/plan/device/device_plan_exchange.h"

namespace horo::plan {

using collectives::ChunkPipeline;
using collectives::MemoryFacts;

// Metrics are sent as their own type.
DataType DevicePlanExchange::wire_of(std::size_t gradient) const {
  const DataType type = parts_.gradients[gradient].tensor.type();
  if (type != DataType::kFloat32 || parts_.is_metric[gradient]) return type;
  return parts_.options.wire.value_or(type);
}

// Splits buckets so that the gradients of a bucket have one wire type. They have one element type
// already. Keeps the order of the gradients.
BucketPlan DevicePlanExchange::fit(BucketPlan plan) const {
  BucketPlan cut{.buckets = {}, .bucket_of = plan.bucket_of, .limits = plan.limits};
  for (const std::vector<std::size_t>& members : plan.buckets)
    for (const std::size_t i : members) {
      if (i == members.front() || wire_of(i) != wire_of(cut.buckets.back().front()))
        cut.buckets.emplace_back();
      cut.buckets.back().push_back(i);
      cut.bucket_of[i] = cut.buckets.size() - 1;
    }
  return cut;
}

std::vector<TensorView> DevicePlanExchange::tensors_of(
    const std::vector<std::size_t>& members) const {
  std::vector<TensorView> tensors;
  for (const std::size_t i : members) tensors.push_back(parts_.gradients[i].tensor);
  return tensors;
}

// If a rank cannot connect its device or allocate memory, all ranks throw the same error, so no
// rank waits for a rank that has thrown. A rank that is not connected skips allocate(). If all GPUs
// are connected with each other, allocate() is collective. In that case, no rank has an error here,
// because the connection would have thrown the error on all ranks. If the devices are connected by
// nodes, allocate() sends no messages.
void DevicePlanExchange::use_plan(const BucketPlan& plan, collectives::Collectives& control) {
  release();
  plan_ = plan;
  if (parts_.topology.size > 1) connect(control);
  std::string problem = connection_.error_text;
  lay_out(agree_on_memory(control));
  try {
    if (problem.empty()) allocate(control);
  } catch (const DeviceError& error) {
    problem = error.what();
  }
  if (!problem.empty())
    problem = fmt::format("{}, for gradients '{}': {}",
                          parts_.topology.describe(parts_.topology.rank), parts_.name, problem);
  problem = collectives::first_problem(problem, control, parts_.topology);
  if (!problem.empty()) throw DeviceError(problem);
}

void DevicePlanExchange::connect(collectives::Collectives& control) {
  if (connection_.collectives != nullptr && connected_ctas_ == parts_.max_ctas) return;
  watch_.watch(nullptr);
  connection_ = {};
  connection_ = parts_.connect(*waits_, parts_.max_ctas, control);
  connected_ctas_ = parts_.max_ctas;
  has_exchanged_ = false;
  watch_.watch(connection_.collectives.get());
}

// The memory layout of gradients may differ between ranks, but all ranks must reduce the same
// gradients in place. So the plan uses only the properties that hold on all ranks. A property is a
// flag of one byte, and the ranks take the minimum of each flag.
std::vector<MemoryFacts> DevicePlanExchange::agree_on_memory(
    collectives::Collectives& control) const {
  std::vector<MemoryFacts> facts;
  for (const std::vector<std::size_t>& members : plan_.buckets)
    std::ranges::copy(collectives::memory_facts(tensors_of(members)), std::back_inserter(facts));
  static_assert(sizeof(MemoryFacts) == 3);
  if (parts_.topology.size > 1)
    control.allreduce({DataType::kInt8, facts.data(), facts.size() * 3}, ReduceOp::kMin);
  return facts;
}

// The events are made here, so that no step has to make them.
void DevicePlanExchange::lay_out(std::span<const MemoryFacts> facts) {
  const GradientSyncOptions& options = parts_.options;
  buckets_.clear();
  layouts_.clear();
  ends_.clear();
  for (const std::vector<std::size_t>& members : plan_.buckets) {
    const std::vector<TensorView> tensors = tensors_of(members);
    const DataType type = tensors.front().type();
    const DataType wire = wire_of(members.front());
    std::vector<collectives::MemorySpan> in_place;
    if (options.in_place_bytes && wire == type)
      in_place =
          collectives::memory_spans(tensors, facts.first(tensors.size()), *options.in_place_bytes);
    layouts_.emplace_back(tensors, wire, options.chunk_bytes, in_place);
    facts = facts.subspan(tensors.size());
    Bucket& bucket = buckets_.emplace_back();
    bucket.members = members;
    for (auto* events : {&bucket.begun, &bucket.done, &bucket.prepared})
      for (auto& event : *events) event = parts_.device->make_event();
  }
}

void DevicePlanExchange::allocate(collectives::Collectives& control) {
  if (uses_memory())
    memory_ = std::make_unique<DeviceGradientMemory>(*parts_.device, parts_.gradients,
                                                     parts_.is_metric, plan_);
  if (is_alone()) return;
  collectives::DeviceCollectives& made = *connection_.collectives;
  for (const auto& layout : layouts_)
    for (const auto& [data, count] : layout.spans())
      made.register_memory(data, count * size_of(layout.type()), control);
  const ChunkPipeline::Options options{.buffers = parts_.options.leave_as_reduced ? 1 : 2};
  std::size_t bytes = 0;
  if (parts_.options.leave_as_reduced)
    bytes = ChunkPipeline::place_apart(layouts_);
  else
    for (const auto& layout : layouts_) bytes = std::max(bytes, layout.buffer_bytes());
  pipeline_ = ChunkPipeline::make(*parts_.device, made, bytes, options, control);
}

}  // namespace horo::plan
