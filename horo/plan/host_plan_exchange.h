#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "collectives/buffers.h"
#include "horo/base/topology.h"
#include "horo/plan/compressed_plan.h"
#include "horo/plan/gradients/host_gradient_memory.h"
#include "horo/plan/gradients/mapped_gradients.h"
#include "horo/plan/plan_communicators.h"
#include "horo/plan/plan_exchange.h"

namespace horo::plan {

/// Exchanges buckets in host memory. If all gradients of a bucket are mapped and the bucket is not
/// compressed, the bucket is exchanged with Collectives::allreduce_mapped().
class HostPlanExchange : public PlanExchange {
 public:
  /// mapped.addresses is empty if no gradient is mapped. `compression` and `communicators` belong
  /// to the plan and must outlive this object, as must `topology`.
  HostPlanExchange(std::vector<NamedTensor> gradients, const std::vector<bool>& is_metric,
                   MappedGradients mapped, CompressedPlan& compression,
                   PlanCommunicators& communicators, const Topology& topology);

  void use_plan(const BucketPlan& plan, collectives::Collectives& control) override;
  GradientMemory* memory() override { return &memory_; }
  bool is_compressed(std::size_t bucket) const override { return buckets_[bucket].is_compressed; }
  bool is_mapped(std::size_t bucket) const override;
  void set_zero(std::size_t gradient, std::optional<void*> /*stream*/) override {
    memory_.set_zero(gradient);
  }
  void exchange(std::size_t bucket, const BucketExchange& how) override;

 private:
  struct Bucket {
    explicit Bucket(DataType type) : buffer(type) {}
    collectives::ScatteredBuffer buffer;
    std::optional<collectives::MappedBuffer> mapped;
    bool is_compressed = false;
  };

  std::optional<collectives::MappedBuffer> map_bucket(
      const std::vector<std::size_t>& members) const;

  const std::vector<NamedTensor> gradients_;
  const MappedGradients mapped_;
  CompressedPlan& compression_;
  PlanCommunicators& communicators_;
  const Topology& topology_;
  HostGradientMemory memory_;
  std::vector<Bucket> buckets_;
};

}  // namespace horo::plan
