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
  start_thread();  // last, because the thread uses the other members
}

BucketScheduler::~BucketScheduler() { stop_thread(); }

// Requires that the thread does not run. The buffers refer to the memory of the gradients. A
// compressed bucket gets no mapped buffer, because its compressor exchanges the gradients.
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

// Returns nullopt unless all gradients of the bucket are mapped. find_mapped_gradients() gives all
// ranks the same set of mapped gradients, so all ranks exchange the bucket in the same way.
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

// Requires that no bucket is in flight. While the step is held, `missing` of each bucket starts at
// one more than the number of its gradients, so no bucket becomes complete.
//
// A thread that reads the new value of next_ also sees the new counters. The plan's thread may have
// read the old value of next_, and may then read an old counter that is 0. It therefore checks
// again under run_mutex_. No thread calls mark() during this function (see BucketScheduler), so
// later calls of mark() use the new counters.
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
// for another rank does not check should_stop_. Instead, is_cancelled ends that wait, unless the
// wait is inside a call of MPI. The caller must not hold run_mutex_, because the thread may be
// about to lock it.
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
  // step_ and buckets_ refer to members of parts_. A collective that has failed may still write to
  // the memory of a hook until its communicator is destroyed. Therefore step_, buckets_ and the
  // communicators are destroyed before parts_ is overwritten.
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

// Keeps the communicators and the hooks.
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

// Hot path: the threads of backward call mark() for each gradient in each pass. mark() takes a lock
// only to wake the plan's thread.
//
// The decrement of `missing` also publishes the gradient. The decrements of a bucket form a release
// sequence, so a thread that reads 0 sees the values that all marking threads have written. The
// recorder is called before the decrement, because after the decrement another thread may exchange
// the bucket.
bool BucketScheduler::mark(std::size_t gradient) {
  if (!marks_.mark(gradient)) return false;
  const std::size_t index = parts_.plan.bucket_of[gradient];
  flight_->mark(gradient);
  if (!is_held_) {
    const std::size_t missing = buckets_[index]->missing.load(std::memory_order_relaxed);
    if (missing == buckets_[index]->tensors) flight_->first(index);
    if (missing == 1) flight_->complete(index);
  }
  // The plan's thread sets is_asleep_ and then reads next_ and `missing`. mark() decrements
  // `missing` and then reads next_ and is_asleep_, in this order. All these accesses are
  // sequentially consistent. So either the plan's thread sees that the bucket is complete, or
  // mark() sees that the thread is asleep. The load of next_ in mark() must be sequentially
  // consistent too, because reset_buckets() stores next_ with release order only. If `index` is not
  // next_, no wake-up is needed: the plan's thread or wait() exchanges the bucket after next_ has
  // reached `index`.
  if (buckets_[index]->missing.fetch_sub(1) == 1 && index == next_.load() && is_asleep_.load()) {
    const std::scoped_lock lock(sleep_mutex_);
    wake_.notify_one();
  }
  return true;
}

// Does not wake the plan's thread. Otherwise the caller, which ends the pass next, might have to
// wait until the thread has exchanged a bucket.
void BucketScheduler::mark_all() {
  for (std::size_t i = 0; i < marks_.size(); ++i)
    if (marks_.mark(i)) {
      flight_->mark(i);
      buckets_[parts_.plan.bucket_of[i]]->missing.fetch_sub(1);
    }
}

// When the caller calls set_held() or end_pass(), `missing` of every bucket is above 0, so the
// plan's thread exchanges no bucket. These functions therefore change the counters without
// run_mutex_.
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

// end_step() of a hook may call repack(), which joins the plan's thread. So wait() calls end_step()
// after finish_exchange() has released run_mutex_.
const StepReport& BucketScheduler::wait() {
  finish_exchange();
  for (StepHook* hook : hooks_) hook->end_step(*this, report_);
  return report_;
}

// The caller waits for the end of the step, so it exchanges the remaining buckets itself. This
// avoids a wake-up of the plan's thread, and the waits follow the policy of the caller. If the
// plan's thread holds run_mutex_, it completes its bucket. caller_waits_ then makes the thread
// leave the next bucket to the caller. Relaxed stores are enough, because run_mutex_ determines
// which thread exchanges. The thread cannot read an outdated `true` when a bucket of the next step
// is complete, because the marks of that step happen after the store of `false`.
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

// Waits for run_mutex_, which the plan's thread holds while it exchanges a bucket. Records the wait
// if the times of that bucket are recorded. Reads next_ without the lock. An outdated value only
// affects whether the wait is recorded.
void BucketScheduler::await_own_thread(std::unique_lock<std::mutex>& lock) {
  const std::size_t bucket = next_;
  const bool is_recorded = bucket < buckets_.size() && flight_->is_timed(bucket);
  const std::int64_t since = is_recorded ? observe::flight_clock() : 0;
  lock.lock();
  if (is_recorded) flight_->record_wait(since);
}

// Returns the number of bytes that the latest step sent, for the metrics. If compression has
// changed this number, returns CompressionFigures::bytes_sent. Otherwise, returns the number of
// bytes that the communicators sent in the wire type. Returns nullopt if there are none or if the
// step was skipped. Stores the total of the communicators, so that the next call can compute the
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
// this rank has failed. After any other error, give_up() records that only this plan has ended. An
// example is the MismatchError of PlanUpdateRendezvous.
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

// Requires run_mutex_ and that bucket next_ is complete. Both threads exchange the buckets with
// this function, so the order is the same on every rank. Increments next_ even after an error. In
// that case, error_ prevents further exchanges.
void BucketScheduler::run_next(bool is_on_own_thread) {
  const std::size_t index = next_;
  const Bucket& bucket = *buckets_[index];
  flight_->start(index);
  meter_.begin_exchange();
  record_errors(index, [&] {
    if (index == 0) begin_exchange();
    const bool is_skipped = step_->is_skipped();
    if (!is_skipped) exchange(index);
    flight_->finish(index, is_on_own_thread);
    meter_.end_exchange(is_skipped ? 0 : bucket.buffer.bytes());
    if (!is_skipped) count_(bucket.buffer.bytes(), bucket.tensors);
  });
  ++next_;
}

// Runs on the thread that exchanges the first bucket. Tuning may have swapped the communicators
// after the previous step, so each step gets a new step_ with the current communicator. The caller
// may still read the report of the previous step, so this step has a separate report. The total
// weight is initially the number of ranks, as if all weights were 1. StepWeights replaces it.
void BucketScheduler::begin_exchange() {
  next_report_ = {.was_exchanged = true, .total_weight = static_cast<double>(topology_.size)};
  step_.emplace(StepExchange{.collectives = parts_.communicators->current().collectives(),
                             .count = count_,
                             .report = next_report_});
  for (StepHook* hook : hooks_) hook->begin_exchange(*step_);
}

// All ranks take the same branch, because they have agreed on the compression and on the mapped
// gradients. before_bucket() may scale the gradients in place and replace the operation.
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

// The loop of the plan's own thread. The thread checks without a lock whether the next bucket is
// complete, and again under run_mutex_. After an error, it exchanges nothing more. replace() starts
// a new thread.
void BucketScheduler::run_thread(const std::string& log_label) {
  set_log_label(log_label);
  ask_for_short_slices();
  while (!should_stop_) {
    if (is_next_complete() && !caller_waits_) {
      const std::scoped_lock lock(run_mutex_);
      // Meanwhile, the caller may have exchanged the bucket, and may even have begun another step.
      if (!is_next_complete()) continue;
      if (error_ != nullptr) return;
      // The program may compute on this core meanwhile, so waits for other ranks sleep.
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
