#include "horo/coordinator/bucket_plan.h"

#include <fmt/format.h>

#include "horo/coordinator/negotiator.h"

namespace horo::coordinator {
namespace {

std::string describe_settings(const Request& settings) {
  return fmt::format("{} with bucket_bytes {} and wire type {}", horo::name_of(settings.op),
                     settings.shape[0], horo::name_of(settings.type));
}

}  // namespace

BucketPlan make_bucket_plan(std::span<const NamedTensor> gradients, std::size_t bucket_bytes) {
  BucketPlan plan;
  plan.bucket_of.resize(gradients.size());
  std::size_t open_bytes = 0;
  for (std::size_t i = gradients.size(); i-- > 0;) {
    const TensorView& tensor = gradients[i].tensor;
    const bool fits = !plan.buckets.empty() && open_bytes + tensor.bytes() <= bucket_bytes &&
                      gradients[plan.buckets.back().front()].tensor.type() == tensor.type();
    if (!fits) {
      plan.buckets.emplace_back();
      open_bytes = 0;
    }
    plan.buckets.back().push_back(i);
    plan.bucket_of[i] = plan.buckets.size() - 1;
    open_bytes += tensor.bytes();
  }
  return plan;
}

std::vector<Request> describe_plan(std::span<const NamedTensor> gradients, ReduceOp op,
                                   std::size_t bucket_bytes, std::optional<DataType> wire) {
  std::vector<Request> description;
  for (const NamedTensor& gradient : gradients)
    description.push_back(
        {gradient.name, Kind::kAllreduce, gradient.tensor.type(), op, 0, gradient.tensor.shape()});
  // float32 as the wire type of the settings: none is asked for.
  description.push_back(
      {"settings", Kind::kTask, wire.value_or(DataType::kFloat32), op, 0, Shape{bucket_bytes}});
  return description;
}

std::string find_plan_mismatch(const std::string& plan_name,
                               std::span<const std::vector<Request>> descriptions,
                               std::span<const std::string> rank_names) {
  const std::vector<Request>& first = descriptions[0];
  for (std::size_t r = 1; r < descriptions.size(); ++r) {
    const std::vector<Request>& other = descriptions[r];
    // The last request of a description is its settings, not a gradient.
    const std::size_t common = std::min(first.size(), other.size()) - 1;
    for (std::size_t i = 0; i < common; ++i) {
      if (first[i].name != other[i].name)
        return fmt::format("gradients '{}': gradient {} is '{}' on {} and '{}' on {}", plan_name, i,
                           first[i].name, rank_names[0], other[i].name, rank_names[r]);
      const std::string text = describe_mismatch(first[i], rank_names[0], other[i], rank_names[r]);
      if (!text.empty()) return fmt::format("gradients '{}': {}", plan_name, text);
    }
    if (first.size() != other.size()) {
      const auto& longer = first.size() > other.size() ? first : other;
      return fmt::format(
          "gradients '{}': {} registered {} and {} registered {}; '{}' is on one only", plan_name,
          rank_names[0], first.size() - 1, rank_names[r], other.size() - 1, longer[common].name);
    }
    if (!(first.back() == other.back()))
      return fmt::format("gradients '{}': {} on {} and {} on {}", plan_name,
                         describe_settings(first.back()), rank_names[0],
                         describe_settings(other.back()), rank_names[r]);
  }
  return {};
}

}  // namespace horo::coordinator
