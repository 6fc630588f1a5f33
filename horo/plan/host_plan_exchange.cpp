#include "horo/plan/host_plan_exchange.h"

#include <utility>

namespace horo::plan {

HostPlanExchange::HostPlanExchange(std::vector<NamedTensor> gradients,
                                   const std::vector<bool>& is_metric, MappedGradients mapped,
                                   CompressedPlan& compression, PlanCommunicators& communicators,
                                   const Topology& topology)
    : gradients_(std::move(gradients)),
      mapped_(std::move(mapped)),
      compression_(compression),
      communicators_(communicators),
      topology_(topology),
      memory_(gradients_, is_metric) {}

// The buffers refer to the memory of the gradients. A compressed bucket gets no mapped buffer,
// because its compressor exchanges the gradients.
void HostPlanExchange::use_plan(const BucketPlan& plan, collectives::Collectives& /*control*/) {
  buckets_.clear();
  for (const std::vector<std::size_t>& members : plan.buckets) {
    Bucket bucket(gradients_[members.front()].tensor.type());
    for (const std::size_t i : members)
      bucket.buffer.add(gradients_[i].tensor.data(), gradients_[i].tensor.count());
    bucket.is_compressed = compression_.covers(buckets_.size());
    if (!bucket.is_compressed) bucket.mapped = map_bucket(members);
    buckets_.push_back(std::move(bucket));
  }
}

// Returns nullopt unless all gradients of the bucket are mapped. find_mapped_gradients() gives all
// ranks the same set of mapped gradients, so all ranks exchange the bucket in the same way.
std::optional<collectives::MappedBuffer> HostPlanExchange::map_bucket(
    const std::vector<std::size_t>& members) const {
  const auto& addresses = mapped_.addresses;
  if (addresses.empty()) return std::nullopt;
  for (const std::size_t i : members)
    if (addresses[i].empty()) return std::nullopt;
  collectives::MappedBuffer buffer(gradients_[members.front()].tensor.type(),
                                   static_cast<int>(addresses[members.front()].size()),
                                   topology_.local_rank);
  for (const std::size_t i : members) buffer.add(addresses[i], gradients_[i].tensor.count());
  return buffer;
}

bool HostPlanExchange::is_mapped(std::size_t bucket) const {
  return buckets_[bucket].mapped && communicators_.current().collectives().uses_mapped_buffers();
}

// All ranks take the same branch, because they have agreed on the compression and on the mapped
// gradients.
void HostPlanExchange::exchange(std::size_t index, const BucketExchange& how) {
  for (const std::size_t i : how.gradients) {
    if (!how.has_data)
      memory_.set_zero(i);
    else if (how.factor != 1)
      memory_.scale(i, how.factor);
  }
  const Bucket& bucket = buckets_[index];
  collectives::Communicator& communicator = communicators_.current();
  if (bucket.is_compressed)
    compression_.allreduce(index, bucket.buffer, communicator.collectives(), how.op);
  else if (bucket.mapped)
    communicator.collectives().allreduce_mapped(*bucket.mapped, how.op);
  else
    communicator.allreduce(bucket.buffer, how.op);
}

}  // namespace horo::plan
