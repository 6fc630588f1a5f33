#include "horo/plan/bucket_plan.h"

#include <numeric>

namespace horo::plan {

BucketPlan make_bucket_plan(std::span<const NamedTensor> gradients, const BucketLimits& limits) {
  std::vector<std::size_t> from_last_to_first(gradients.size());
  std::iota(from_last_to_first.rbegin(), from_last_to_first.rend(), std::size_t{0});
  return make_bucket_plan(gradients, from_last_to_first, limits);
}

// A gradient goes into the latest bucket or into a new bucket, never into an earlier bucket. If
// backward produces the gradients in `order`, the buckets therefore become complete one after the
// other. A complete bucket can be exchanged while backward computes the gradients of later buckets.
BucketPlan make_bucket_plan(std::span<const NamedTensor> gradients,
                            std::span<const std::size_t> order, const BucketLimits& limits) {
  BucketPlan plan{.buckets = {}, .bucket_of = {}, .limits = limits};
  plan.bucket_of.resize(gradients.size());
  std::size_t open_bytes = 0;
  for (const std::size_t i : order) {
    const TensorView& tensor = gradients[i].tensor;
    const std::size_t room =
        plan.buckets.size() == 1 ? limits.first_bytes.value_or(limits.bytes) : limits.bytes;
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

// The recorder stores only one element type per plan. If the types of the gradients differ, this
// function passes the type of gradient 0.
observe::PlanDescription describe_to_recorder(const std::string& name,
                                              const std::string& process_set,
                                              std::span<const NamedTensor> gradients,
                                              const BucketPlan& plan, ReduceOp op) {
  observe::PlanDescription description{.name = name,
                                       .process_set = process_set,
                                       .bucket_of = plan.bucket_of,
                                       .bytes_of = std::vector<std::size_t>(plan.buckets.size(), 0),
                                       .type = gradients.front().tensor.type(),
                                       .op = op};
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    description.gradients.push_back(gradients[i].name);
    description.bytes_of[plan.bucket_of[i]] += gradients[i].tensor.bytes();
  }
  return description;
}

}  // namespace horo::plan
