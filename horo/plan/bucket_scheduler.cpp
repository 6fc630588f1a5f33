#include "horo/plan/bucket_scheduler.h"

#include <algorithm>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/log.h"
#include "horo/base/system/threads.h"

namespace horo::coordinator {

BucketScheduler::BucketScheduler(Parts parts, const Topology& topology, ReduceOp op,
                                 CountCollective count, observe::FlightRecorder& recorder,
                                 std::string name, metrics::StepMeter meter)
    : parts_(std::move(parts)),
      topology_(topology),
      op_(op),
      count_(std::move(count)),
      recorder_(recorder),
      name_(std::move(name)),
      hooks_(parts_.hooks.in_order()),
      marks_(parts_.gradients.size()),
      meter_(std::move(meter)) {
  make_buckets();
  start_thread();
}

BucketScheduler::~BucketScheduler() { stop_thread(); }

void BucketScheduler::make_buckets() {
  buckets_.clear();
  for (const std::vector<std::size_t>& members : parts_.plan.buckets) {
    auto bucket = std::make_unique<Bucket>(parts_.gradients[members.front()].tensor.type());
    for (std::size_t i : members)
      bucket->buffer.add(parts_.gradients[i].tensor.data(), parts_.gradients[i].tensor.count());
    if (!parts_.hooks.compression->covers(buckets_.size())) bucket->mapped = map_bucket(members);
    bucket->tensors = members.size();
    buckets_.push_back(std::move(bucket));
  }
  flight_.emplace(recorder_, describe_to_recorder(name_, topology_.set_name(), parts_.gradients,
                                                  parts_.plan, op_));
  reset_buckets();
}

// Empty unless all members are mapped.
std::optional<collectives::MappedBuffer> BucketScheduler::map_bucket(
    const std::vector<std::size_t>& members) const {
  const auto& addresses = parts_.mapped.addresses;
  if (addresses.empty()) return std::nullopt;
  for (std::size_t i : members)
    if (addresses[i].empty()) return std::nullopt;
  collectives::MappedBuffer buffer(parts_.gradients[members.front()].tensor.type(),
                                   static_cast<int>(addresses[members.front()].size()),
                                   topology_.local_rank);
  for (std::size_t i : members) buffer.add(addresses[i], parts_.gradients[i].tensor.count());
  return buffer;
}

// Requires that no bucket is in flight. While the step is held, each bucket counts one gradient
// more than it has and therefore never becomes complete. So mark() needs no branch for it.
void BucketScheduler::reset_buckets() {
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    buckets_[b]->missing = buckets_[b]->tensors + (is_held_ ? 1 : 0);
  next_ = 0;
}

void BucketScheduler::start_thread() {
  should_stop_ = false;
  parts_.communicators->waits().is_cancelled = false;
  thread_ = std::jthread([this, label = log_label()] { run_thread(label); });
}

void BucketScheduler::stop_thread() {
  {
    const std::scoped_lock lock(sleep_mutex_);
    should_stop_ = true;
    parts_.communicators->waits().is_cancelled = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void BucketScheduler::replace(Parts parts) {
  stop_thread();
  // What refers to other parts is destroyed first.
  step_.reset();
  buckets_.clear();
  parts_.communicators.reset();
  parts_ = std::move(parts);
  hooks_ = parts_.hooks.in_order();
  marks_ = GradientMarks(parts_.gradients.size());
  error_ = nullptr;
  meter_.drop_step();
  wire_bytes_ = 0;
  make_buckets();
  start_thread();
}

void BucketScheduler::repack(std::span<const std::size_t> order, const BucketLimits& limits) {
  BucketPlan plan = make_bucket_plan(parts_.gradients, order, limits);
  if (plan.buckets == parts_.plan.buckets) return;
  stop_thread();
  parts_.plan = std::move(plan);
  for (StepHook* hook : hooks_) hook->repack(parts_.plan);
  make_buckets();
  start_thread();
}

bool BucketScheduler::is_mapped(std::size_t bucket) const {
  return buckets_[bucket]->mapped &&
         parts_.communicators->current().collectives().uses_mapped_buffers();
}

bool BucketScheduler::mark(std::size_t gradient) {
  if (!marks_.mark(gradient)) return false;
  const std::size_t index = parts_.plan.bucket_of[gradient];
  flight_->mark(gradient);
  if (!is_held_) {
    const std::size_t missing = buckets_[index]->missing.load(std::memory_order_relaxed);
    if (missing == buckets_[index]->tensors) flight_->first(index);
    if (missing == 1) flight_->complete(index);
  }
  // The thread sets is_asleep_ and then looks at `missing`; this decrements `missing` and then
  // looks at is_asleep_. Both are sequentially consistent, so at least one sees the other.
  if (buckets_[index]->missing.fetch_sub(1) == 1 && index == next_.load() && is_asleep_.load()) {
    const std::scoped_lock lock(sleep_mutex_);
    wake_.notify_one();
  }
  return true;
}

void BucketScheduler::mark_all() {
  for (std::size_t i = 0; i < marks_.size(); ++i)
    if (marks_.mark(i)) {
      flight_->mark(i);
      buckets_[parts_.plan.bucket_of[i]]->missing.fetch_sub(1);
    }
}

void BucketScheduler::set_held(bool is_held) {
  is_held_ = is_held;
  reset_buckets();
}

void BucketScheduler::end_pass() {
  marks_.end_pass();
  reset_buckets();
}

bool BucketScheduler::has_failed() const {
  const std::scoped_lock lock(run_mutex_);
  return error_ != nullptr;
}

const StepReport& BucketScheduler::wait() {
  finish_exchange();
  for (StepHook* hook : hooks_) hook->end_step(*this, report_);
  return report_;
}

void BucketScheduler::finish_exchange() {
  const metrics::Blocked blocked(meter_.rank_meter());
  caller_waits_ = true;
  std::unique_lock lock(run_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) await_own_thread(lock);
  caller_waits_ = false;
  if (error_ == nullptr) {
    parts_.communicators->waits().use_spin_waits();
    while (next_ < buckets_.size() && error_ == nullptr) run_next(false);
  }
  if (error_ == nullptr)
    record_errors(buckets_.size() - 1, [&] {
      flight_->conclude();
      for (StepHook* hook : hooks_) hook->end_exchange(*step_);
    });
  if (error_ != nullptr) std::rethrow_exception(error_);
  report_ = std::move(step_->report);
  flight_->end_step();
  if (meter_.is_on()) meter_.end_step(blocked, take_wire_bytes());
  marks_.end_step();
  reset_buckets();
}

// Waits until the thread has exchanged the bucket that is in flight.
void BucketScheduler::await_own_thread(std::unique_lock<std::mutex>& lock) {
  const std::size_t bucket = next_;
  const bool is_recorded = bucket < buckets_.size() && flight_->is_timed(bucket);
  const std::int64_t since = is_recorded ? observe::flight_clock() : 0;
  lock.lock();
  if (is_recorded) flight_->record_wait(since);
}

// The bytes that the latest step has sent, if they differ from those of the gradients.
std::optional<std::uint64_t> BucketScheduler::take_wire_bytes() {
  const std::uint64_t before =
      std::exchange(wire_bytes_, parts_.communicators->wire_report().bytes_sent);
  if (report_.total_weight == 0) return std::nullopt;
  const CompressionFigures& step = parts_.hooks.compression->report().latest_step;
  if (step.bytes_sent != step.bytes_uncompressed) return step.bytes_sent;
  if (wire_bytes_ == before) return std::nullopt;
  return wire_bytes_ - before;
}

bool BucketScheduler::is_next_complete() const {
  const std::size_t next = next_.load();
  return next < buckets_.size() && buckets_[next]->missing.load() == 0;
}

// Requires run_mutex_.
template <typename Work>
void BucketScheduler::record_errors(std::size_t bucket, const Work& work) {
  try {
    work();
  } catch (const CommunicationError& error) {
    flight_->fail(bucket, error.what());
    error_ = std::current_exception();
  } catch (...) {
    flight_->give_up();
    error_ = std::current_exception();
  }
}

// Requires run_mutex_ and that the next bucket is complete.
void BucketScheduler::run_next(bool is_on_own_thread) {
  const std::size_t index = next_;
  const Bucket& bucket = *buckets_[index];
  flight_->start(index);
  meter_.begin_exchange();
  record_errors(index, [&] {
    if (index == 0) begin_exchange();
    if (!step_->is_skipped()) exchange(index);
    flight_->finish(index, is_on_own_thread);
    meter_.end_exchange(step_->is_skipped() ? 0 : bucket.buffer.bytes());
    count_(bucket.buffer.bytes(), bucket.tensors);
  });
  ++next_;
}

void BucketScheduler::begin_exchange() {
  step_.emplace(StepExchange{
      .collectives = parts_.communicators->current().collectives(),
      .count = count_,
      .report = {.was_exchanged = true, .total_weight = static_cast<double>(topology_.size)}});
  for (StepHook* hook : hooks_) hook->begin_exchange(*step_);
}

void BucketScheduler::exchange(std::size_t index) {
  const Bucket& bucket = *buckets_[index];
  CompressedPlan& compression = *parts_.hooks.compression;
  BucketExchange exchange{.gradients = parts_.plan.buckets[index],
                          .is_compressed = compression.covers(index),
                          .op = op_};
  for (StepHook* hook : hooks_) hook->before_bucket(*step_, exchange);
  if (exchange.is_compressed)
    compression.allreduce(index, bucket.buffer, step_->collectives, exchange.op);
  else if (bucket.mapped)
    step_->collectives.allreduce_mapped(*bucket.mapped, exchange.op);
  else
    parts_.communicators->current().allreduce(bucket.buffer, exchange.op);
  for (StepHook* hook : hooks_) hook->after_bucket(exchange);
}

void BucketScheduler::run_thread(const std::string& log_label) {
  set_log_label(log_label);
  ask_for_short_slices();
  while (!should_stop_) {
    if (is_next_complete() && !caller_waits_) {
      const std::scoped_lock lock(run_mutex_);
      // The caller may have exchanged the bucket meanwhile, and even have begun another step.
      if (!is_next_complete()) continue;
      if (error_ != nullptr) return;
      // The caller computes, so waits for other ranks must not use its core.
      parts_.communicators->waits().use_sleep_waits();
      run_next(true);
      continue;
    }
    std::unique_lock lock(sleep_mutex_);
    is_asleep_ = true;
    wake_.wait(lock, [&] { return should_stop_ || (is_next_complete() && !caller_waits_); });
    is_asleep_ = false;
  }
}

}  // namespace horo::coordinator
