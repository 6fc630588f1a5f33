#include "horo/coordinator/bucket_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "horo/coordinator/compression_settings.h"

namespace horo::coordinator {
namespace {

constexpr const char* kSettings = "settings";

std::size_t count_gradients(const std::vector<Request>& description) {
  return static_cast<std::size_t>(
      std::ranges::count(description, Kind::kAllreduce, &Request::kind));
}

std::string describe_settings(const Request& settings) {
  if (settings.name != kSettings) return settings.name;
  return fmt::format("{} with bucket_bytes {} and wire type {}", horo::name_of(settings.op),
                     settings.shape[0], horo::name_of(settings.type));
}

}  // namespace

BucketPlan make_bucket_plan(std::span<const NamedTensor> gradients, std::size_t bucket_bytes,
                            std::optional<std::size_t> first_bucket_bytes) {
  std::vector<std::size_t> from_last_to_first(gradients.size());
  std::iota(from_last_to_first.rbegin(), from_last_to_first.rend(), std::size_t{0});
  return make_bucket_plan(gradients, from_last_to_first, bucket_bytes, first_bucket_bytes);
}

BucketPlan make_bucket_plan(std::span<const NamedTensor> gradients,
                            std::span<const std::size_t> order, std::size_t bucket_bytes,
                            std::optional<std::size_t> first_bucket_bytes) {
  BucketPlan plan;
  plan.bucket_of.resize(gradients.size());
  std::size_t open_bytes = 0;
  for (const std::size_t i : order) {
    const TensorView& tensor = gradients[i].tensor;
    const std::size_t room =
        plan.buckets.size() == 1 ? first_bucket_bytes.value_or(bucket_bytes) : bucket_bytes;
    const bool fits = !plan.buckets.empty() && open_bytes + tensor.bytes() <= room &&
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

std::vector<std::size_t> packing_order(const BucketPlan& plan) {
  std::vector<std::size_t> order;
  for (const std::vector<std::size_t>& members : plan.buckets)
    order.insert(order.end(), members.begin(), members.end());
  return order;
}

std::vector<Request> describe_plan(std::span<const NamedTensor> gradients, ReduceOp op,
                                   std::size_t bucket_bytes, std::optional<DataType> wire,
                                   const Compression& compression,
                                   std::span<const std::string> options) {
  std::vector<Request> description;
  for (const NamedTensor& gradient : gradients)
    description.push_back(
        {gradient.name, Kind::kAllreduce, gradient.tensor.type(), op, 0, gradient.tensor.shape()});
  // float32 as the wire type of the settings: none is asked for.
  description.push_back(
      {kSettings, Kind::kTask, wire.value_or(DataType::kFloat32), op, 0, Shape{bucket_bytes}});
  for (const std::string& option : options) description.push_back({option, Kind::kTask});
  for (const std::string& option : describe_compression(compression))
    description.push_back({option, Kind::kTask});
  return description;
}

std::string find_plan_mismatch(const std::string& plan_name,
                               std::span<const std::vector<Request>> descriptions,
                               std::span<const std::string> rank_names) {
  const std::vector<Request>& first = descriptions[0];
  for (std::size_t r = 1; r < descriptions.size(); ++r) {
    const std::vector<Request>& other = descriptions[r];
    const std::size_t first_count = count_gradients(first);
    const std::size_t other_count = count_gradients(other);
    const std::size_t common = std::min(first_count, other_count);
    for (std::size_t i = 0; i < common; ++i) {
      if (first[i].name != other[i].name)
        return fmt::format("gradients '{}': gradient {} is '{}' on {} and '{}' on {}", plan_name, i,
                           first[i].name, rank_names[0], other[i].name, rank_names[r]);
      const std::string text = describe_mismatch(first[i], rank_names[0], other[i], rank_names[r]);
      if (!text.empty()) return fmt::format("gradients '{}': {}", plan_name, text);
    }
    if (first_count != other_count) {
      const auto& longer = first_count > other_count ? first : other;
      return fmt::format(
          "gradients '{}': {} registered {} and {} registered {}; '{}' is on one only", plan_name,
          rank_names[0], first_count, rank_names[r], other_count, longer[common].name);
    }
    // The kind of compression, which decides how many options follow, comes before them.
    const auto [a, b] =
        std::ranges::mismatch(std::span(first).subspan(common), std::span(other).subspan(common));
    if (a != std::span(first).end())
      return fmt::format("gradients '{}': {} on {} and {} on {}", plan_name, describe_settings(*a),
                         rank_names[0], describe_settings(*b), rank_names[r]);
  }
  return {};
}

}  // namespace horo::coordinator
