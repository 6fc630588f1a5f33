#include "horo/plan/bucket_scheduler.h"

#include <algorithm>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/log.h"
#include "horo/base/system/threads.h"

namespace horo::plan {

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
  start_thread();  // last, because the thread uses all other members
}

BucketScheduler::~BucketScheduler() { stop_thread(); }

// Requires that the thread does not run. Buffers refer to the memory of the gradients, so nothing
// is copied here. A compressed bucket is never mapped, because the compressor reads the gradients
// itself.
void BucketScheduler::make_buckets() {
  buckets_.clear();
  for (const std::vector<std::size_t>& members : parts_.plan.buckets) {
    auto bucket = std::make_unique<Bucket>(parts_.gradients[members.front()].tensor.type());
    for (std::size_t i : members)
      bucket->buffer.add(parts_.gradients[i].tensor.data(), parts_.gradients[i].tensor.count());
    bucket->is_compressed = parts_.hooks.compression->covers(buckets_.size());
    if (!bucket->is_compressed) bucket->mapped = map_bucket(members);
    bucket->tensors = members.size();
    buckets_.push_back(std::move(bucket));
  }
  flight_.emplace(recorder_, describe_to_recorder(name_, topology_.set_name(), parts_.gradients,
                                                  parts_.plan, op_));
  reset_buckets();
}

// Returns nullopt unless all members are mapped. find_mapped_gradients() has given all ranks the
// same set of mapped gradients, so all ranks exchange the bucket in the same way.
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

// Requires that no bucket is in flight. While the step is held, `missing` of each bucket starts
// with one gradient too many, so no bucket becomes complete.
//
// A thread that reads the new next_ also sees the new counters. The plan's thread may still read
// the old counters, so it checks again under run_mutex_. No thread calls mark() meanwhile (see
// BucketScheduler), so later calls of mark() use the new counters.
void BucketScheduler::reset_buckets() {
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    buckets_[b]->missing.store(buckets_[b]->tensors + (is_held_ ? 1 : 0),
                               std::memory_order_relaxed);
  next_.store(0, std::memory_order_release);
}

void BucketScheduler::start_thread() {
  should_stop_ = false;
  parts_.communicators->waits().is_cancelled = false;
  thread_ = std::jthread([this, label = log_label()] { run_thread(label); });
}

// This function sets should_stop_ under sleep_mutex_, and the thread checks should_stop_ under
// sleep_mutex_ before it sleeps. So the thread cannot miss the notification. A thread that waits
// for another rank does not check should_stop_. Instead, is_cancelled ends that wait. The caller
// must not hold run_mutex_, because the thread may be about to lock it.
void BucketScheduler::stop_thread() {
  {
    const std::scoped_lock lock(sleep_mutex_);
    should_stop_ = true;
    parts_.communicators->waits().is_cancelled = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

// All ranks have agreed on `parts`, so the next step of every rank uses them. Clears the error, the
// marks and the measurements of a step that has failed.
void BucketScheduler::replace(Parts parts) {
  stop_thread();
  // The step, the buckets and the communicators refer to other parts. A failed collective may still
  // write to the memory of a hook. So the step, the buckets and the communicators are destroyed
  // before the parts are overwritten.
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

// Every rank calls this function after the same step with the same arguments, so no message is
// needed. The communicators and the hooks stay.
void BucketScheduler::repack(std::span<const std::size_t> order, const BucketLimits& limits) {
  BucketPlan plan = make_bucket_plan(parts_.gradients, order, limits);
  if (plan.buckets == parts_.plan.buckets) return;
  stop_thread();
  parts_.plan = std::move(plan);
  parts_.hooks.compression->repack(parts_.plan);
  make_buckets();
  start_thread();
}

bool BucketScheduler::is_mapped(std::size_t bucket) const {
  return buckets_[bucket]->mapped &&
         parts_.communicators->current().collectives().uses_mapped_buffers();
}

// The hot path: called for every gradient of every step, by the threads of backward. It takes a
// lock only to wake the thread.
//
// The decrement of `missing` also publishes the gradient. The decrements of a bucket form a release
// sequence, so the thread that reads 0 sees the values that all marking threads have written.
// The recorder is called before the decrement, because the bucket may be exchanged right after it.
bool BucketScheduler::mark(std::size_t gradient) {
  if (!marks_.mark(gradient)) return false;
  const std::size_t index = parts_.plan.bucket_of[gradient];
  flight_->mark(gradient);
  if (!is_held_) {
    const std::size_t missing = buckets_[index]->missing.load(std::memory_order_relaxed);
    if (missing == buckets_[index]->tensors) flight_->first(index);
    if (missing == 1) flight_->complete(index);
  }
  // The thread sets is_asleep_ and then reads next_ and `missing`. This function decrements
  // `missing` and then reads next_ and is_asleep_, in this order. All these accesses are
  // sequentially consistent, so at least one side sees the other. The load of next_ must be one of
  // these accesses, because reset_buckets() stores next_ with release order only. If `index` is not
  // next_, the thread that exchanges the previous bucket checks bucket `index` next.
  if (buckets_[index]->missing.fetch_sub(1) == 1 && index == next_.load() && is_asleep_.load()) {
    const std::scoped_lock lock(sleep_mutex_);
    wake_.notify_one();
  }
  return true;
}

// Does not wake the thread, because the caller ends the pass next. If this function woke the
// thread, the caller might have to wait until the thread has woken up and exchanged a bucket.
void BucketScheduler::mark_all() {
  for (std::size_t i = 0; i < marks_.size(); ++i)
    if (marks_.mark(i)) {
      flight_->mark(i);
      buckets_[parts_.plan.bucket_of[i]]->missing.fetch_sub(1);
    }
}

// Between passes, no bucket is complete, so the thread does not exchange any. Therefore set_held()
// and end_pass() may change the buckets without run_mutex_.
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

// end_step() of a hook may call repack(), which joins the thread. So wait() calls end_step() after
// finish_exchange() has released run_mutex_.
const StepReport& BucketScheduler::wait() {
  finish_exchange();
  for (StepHook* hook : hooks_) hook->end_step(*this, report_);
  return report_;
}

// The caller has nothing to compute any more, so it exchanges the remaining buckets itself. This
// saves a wake-up of the thread per step, and waits may spin. While caller_waits_ is set, the
// thread does not begin another exchange, but it completes an exchange that has begun. Relaxed
// stores are enough, because run_mutex_ decides which thread exchanges. If the thread sees that
// mark() has completed a bucket of the next step, it also sees that caller_waits_ is false.
//
// After an error, error_ and the marks stay set until replace(). The ranks may have exchanged
// different buckets, so the plan cannot continue.
void BucketScheduler::finish_exchange() {
  const metrics::Blocked blocked(meter_.rank_meter());
  caller_waits_.store(true, std::memory_order_relaxed);
  std::unique_lock lock(run_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) await_own_thread(lock);
  caller_waits_.store(false, std::memory_order_relaxed);
  if (error_ == nullptr) {
    parts_.communicators->waits().use_spin_waits();
    while (next_ < buckets_.size() && error_ == nullptr) run_next(false);
  }
  if (error_ == nullptr)
    record_errors(buckets_.size() - 1, [&] {
      flight_->conclude();
      for (StepHook* hook : hooks_) hook->end_exchange(*step_);
      if (!step_->is_skipped()) parts_.hooks.compression->count_step();
    });
  if (error_ != nullptr) std::rethrow_exception(error_);
  report_ = std::move(next_report_);
  flight_->end_step();
  if (meter_.is_on()) meter_.end_step(blocked, take_wire_bytes());
  marks_.end_step();
  reset_buckets();
}

// Waits until the thread has exchanged the bucket that is in flight, and records that wait. Reads
// next_ without the lock. If the value is outdated, only the record is wrong.
void BucketScheduler::await_own_thread(std::unique_lock<std::mutex>& lock) {
  const std::size_t bucket = next_;
  const bool is_recorded = bucket < buckets_.size() && flight_->is_timed(bucket);
  const std::int64_t since = is_recorded ? observe::flight_clock() : 0;
  lock.lock();
  if (is_recorded) flight_->record_wait(since);
}

// Returns the number of bytes that the latest step sent. The compression counts these bytes or,
// with a wire type, the communicators count them. Returns nullopt if neither counts them or if the
// step was skipped. Stores the total of the communicators, so that the next call can return the
// difference. The caller must call this function once per step.
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

// Requires run_mutex_. After a CommunicationError, the job cannot continue, so fail() records that
// this rank has failed. Any other error ends only this plan, for example if the ranks have called
// different functions.
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

// Requires run_mutex_ and that the next bucket is complete. Every rank exchanges the buckets in
// plan order, whichever of its threads exchanges them. Advances next_ even after an error. In that
// case, error_ prevents further exchanges.
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

// Runs on the thread that exchanges the first bucket. Tuning may have swapped the communicators
// after the previous step, so step_ refers to the current communicator. The caller may still read
// the report of the previous step, so this step has a separate report. The total weight is
// initially the number of ranks, as if all weights were 1. StepWeights replaces it.
void BucketScheduler::begin_exchange() {
  next_report_ = {.was_exchanged = true, .total_weight = static_cast<double>(topology_.size)};
  step_.emplace(StepExchange{.collectives = parts_.communicators->current().collectives(),
                             .count = count_,
                             .report = next_report_});
  for (StepHook* hook : hooks_) hook->begin_exchange(*step_);
}

// All ranks take the same branch, because they have agreed on the compression and on the mapped
// gradients. before_bucket() may scale the gradients in place and replace the operation, so the
// hooks run before any branch reads the gradients or the operation.
void BucketScheduler::exchange(std::size_t index) {
  const Bucket& bucket = *buckets_[index];
  BucketExchange exchange{
      .gradients = parts_.plan.buckets[index], .is_compressed = bucket.is_compressed, .op = op_};
  for (StepHook* hook : hooks_) hook->before_bucket(*step_, exchange);
  if (exchange.is_compressed)
    parts_.hooks.compression->allreduce(index, bucket.buffer, step_->collectives, exchange.op);
  else if (bucket.mapped)
    step_->collectives.allreduce_mapped(*bucket.mapped, exchange.op);
  else
    parts_.communicators->current().allreduce(bucket.buffer, exchange.op);
  for (StepHook* hook : hooks_) hook->after_bucket(exchange);
}

// The loop of the plan's own thread. It checks without a lock whether the next bucket is complete,
// and again under run_mutex_. The loop ends after an error, and replace() starts a new thread.
void BucketScheduler::run_thread(const std::string& log_label) {
  set_log_label(log_label);
  ask_for_short_slices();
  while (!should_stop_) {
    if (is_next_complete() && !caller_waits_) {
      const std::scoped_lock lock(run_mutex_);
      // Meanwhile, the caller may have exchanged the bucket, and may even have begun another step.
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

}  // namespace horo::plan
