#include "horo/coordinator/plan_records.h"

namespace horo::coordinator {

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

}  // namespace horo::coordinator
