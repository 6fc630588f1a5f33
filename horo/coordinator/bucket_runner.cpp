#include "horo/coordinator/bucket_runner.h"

#include "horo/base/error.h"
#include "horo/base/log.h"
#include "horo/base/short_slices.h"

namespace horo::coordinator {

BucketRunner::BucketRunner(std::span<const NamedTensor> gradients, MappedGradients mapped,
                           int local_rank, BucketPlan plan, CompressedPlan compressed, ReduceOp op,
                           std::unique_ptr<PlanWaits> waits,
                           std::unique_ptr<collectives::Communicator> communicator,
                           OnBucket on_bucket)
    : mapped_(std::move(mapped)),
      plan_(std::move(plan)),
      compressed_(std::move(compressed)),
      op_(op),
      waits_(std::move(waits)),
      communicator_(std::move(communicator)),
      on_bucket_(std::move(on_bucket)),
      marks_(gradients.size()) {
  for (const std::vector<std::size_t>& members : plan_.buckets) {
    auto bucket = std::make_unique<Bucket>(gradients[members.front()].tensor.type());
    for (std::size_t i : members)
      bucket->buffer.add(gradients[i].tensor.data(), gradients[i].tensor.count());
    if (!compressed_.covers(buckets_.size()))
      bucket->mapped = map_bucket(members, gradients, local_rank);
    bucket->tensors = members.size();
    bucket->missing = members.size();
    buckets_.push_back(std::move(bucket));
  }
  thread_ = std::jthread([this, label = log_label()] { run_thread(label); });
}

std::optional<collectives::MappedBuffer> BucketRunner::map_bucket(
    const std::vector<std::size_t>& members, std::span<const NamedTensor> gradients,
    int local_rank) const {
  const auto& addresses = mapped_.addresses;
  if (addresses.empty()) return std::nullopt;
  for (std::size_t i : members)
    if (addresses[i].empty()) return std::nullopt;
  collectives::MappedBuffer buffer(gradients[members.front()].tensor.type(),
                                   static_cast<int>(addresses[members.front()].size()), local_rank);
  for (std::size_t i : members) buffer.add(addresses[i], gradients[i].tensor.count());
  return buffer;
}

BucketRunner::~BucketRunner() {
  {
    const std::scoped_lock lock(sleep_mutex_);
    should_stop_ = true;
    waits_->is_cancelled = true;
  }
  wake_.notify_one();
}

bool BucketRunner::mark(std::size_t gradient) {
  if (marks_[gradient].exchange(true, std::memory_order_relaxed)) return false;
  const std::size_t index = plan_.bucket_of[gradient];
  if (buckets_[index]->missing.fetch_sub(1) == 1 && index == next_.load() && is_asleep_.load()) {
    const std::scoped_lock lock(sleep_mutex_);
    wake_.notify_one();
  }
  return true;
}

void BucketRunner::mark_all() {
  for (std::size_t i = 0; i < marks_.size(); ++i)
    if (!marks_[i].exchange(true, std::memory_order_relaxed))
      buckets_[plan_.bucket_of[i]]->missing.fetch_sub(1);
}

std::vector<std::size_t> BucketRunner::unmarked() const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < marks_.size(); ++i)
    if (!marks_[i].load(std::memory_order_relaxed)) found.push_back(i);
  return found;
}

void BucketRunner::wait() {
  caller_waits_ = true;
  const std::scoped_lock lock(run_mutex_);
  caller_waits_ = false;
  if (error_ == nullptr) {
    waits_->keep_the_core();
    while (next_ < buckets_.size() && error_ == nullptr) run_next();
  }
  if (error_ != nullptr) std::rethrow_exception(error_);
  compressed_.end_step();
  for (std::size_t b = 0; b < buckets_.size(); ++b) buckets_[b]->missing = plan_.buckets[b].size();
  for (std::atomic<bool>& mark : marks_) mark.store(false, std::memory_order_relaxed);
  next_ = 0;
}

bool BucketRunner::is_next_complete() const {
  const std::size_t next = next_.load();
  return next < buckets_.size() && buckets_[next]->missing.load() == 0;
}

// Requires run_mutex_ and that the next bucket is complete.
void BucketRunner::run_next() {
  const Bucket& bucket = *buckets_[next_];
  progress_.begin();
  try {
    if (compressed_.covers(next_))
      compressed_.allreduce(next_, bucket.buffer, communicator_->collectives(), op_);
    else if (bucket.mapped)
      communicator_->collectives().allreduce_mapped(*bucket.mapped, op_);
    else
      communicator_->allreduce(bucket.buffer, op_);
    on_bucket_(bucket.buffer.bytes(), bucket.tensors);
  } catch (...) {
    error_ = std::current_exception();
  }
  progress_.end();
  ++next_;
}

void BucketRunner::run_thread(const std::string& log_label) {
  set_log_label(log_label);
  ask_for_short_slices();
  while (!should_stop_) {
    if (is_next_complete() && !caller_waits_) {
      const std::scoped_lock lock(run_mutex_);
      // The caller may have run it meanwhile, and even begun another step.
      if (!is_next_complete()) continue;
      if (error_ != nullptr) return;
      // While the caller computes, a wait for a peer must not take the core from it.
      waits_->nap_only();
      run_next();
      continue;
    }
    std::unique_lock lock(sleep_mutex_);
    is_asleep_ = true;
    wake_.wait(lock, [&] { return should_stop_ || (is_next_complete() && !caller_waits_); });
    is_asleep_ = false;
  }
}

}  // namespace horo::coordinator
