#include "horo/plan/bucket_scheduler.h"

#include <algorithm>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/system/threads.h"
#include "horo/base/text/log.h"

namespace horo::plan {

BucketScheduler::BucketScheduler(Parts parts, const Topology& topology, ReduceOp op,
                                 Callbacks callbacks, observe::FlightRecorder& recorder,
                                 std::string name, metrics::StepMeter meter)
    : parts_(std::move(parts)),
      device_(parts_.exchange->on_device()),
      topology_(topology),
      op_(op),
      callbacks_(std::move(callbacks)),
      recorder_(recorder),
      name_(std::move(name)),
      hooks_(parts_.hooks.in_order()),
      marks_(parts_.gradients.size()),
      meter_(std::move(meter)) {
  make_buckets();
  start_thread();  // last, because the thread uses the other members
}

BucketScheduler::~BucketScheduler() { stop_thread(); }

// Requires that the thread does not run.
void BucketScheduler::make_buckets() {
  buckets_.clear();
  for (const std::vector<std::size_t>& members : parts_.plan.buckets) {
    auto bucket = std::make_unique<Bucket>();
    bucket->tensors = members.size();
    for (const std::size_t i : members) bucket->bytes += parts_.gradients[i].tensor.bytes();
    buckets_.push_back(std::move(bucket));
  }
  flight_.emplace(recorder_, describe_to_recorder(name_, topology_.set_name(), parts_.gradients,
                                                  parts_.plan, op_));
  steps_ = 0;
  if (device_ != nullptr) device_->set_progress(*this);
  reset_buckets();
}

// Requires that no bucket of the current step is in flight. While the step is held, `missing` of
// each bucket starts at one more than the number of its gradients, so no bucket becomes complete.
//
// A thread that reads the new value of next_ also sees the new counters. The plan's thread may have
// read the old value of next_, and may then read an old counter that is 0. It therefore checks
// again under run_mutex_. No thread calls mark() during this function (see BucketScheduler), so
// later calls of mark() use the new counters.
void BucketScheduler::reset_buckets() {
  for (const auto& bucket : buckets_)
    bucket->missing.store(bucket->tensors + (is_held_ ? 1 : 0), std::memory_order_relaxed);
  next_.store(0, std::memory_order_release);
}

void BucketScheduler::start_thread() {
  should_stop_ = false;
  parts_.communicators->waits().is_cancelled = false;
  if (device_ != nullptr) device_->resume();
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
    if (device_ != nullptr) device_->cancel_enqueuing();
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void BucketScheduler::replace(Parts parts) {
  stop_thread();
  // step_ and the exchange refer to members of parts_. A collective that has failed may still write
  // to the memory of a hook until its communicator is destroyed. Therefore step_, the exchange and
  // the communicators are destroyed before parts_ is overwritten.
  step_.reset();
  buckets_.clear();
  parts_.communicators.reset();
  parts_.exchange.reset();
  parts_ = std::move(parts);
  device_ = parts_.exchange->on_device();
  hooks_ = parts_.hooks.in_order();
  marks_ = GradientMarks(parts_.gradients.size());
  has_error_ = false;
  error_ = nullptr;
  meter_.drop_step();
  wire_bytes_ = 0;
  report_ = {};
  is_report_complete_ = true;
  make_buckets();
  start_thread();
}

// Keeps the communicators and the hooks. The thread ends after the exchanges in flight.
void BucketScheduler::repack(std::span<const std::size_t> order, const BucketLimits& limits,
                             bool is_forced) {
  BucketPlan plan = parts_.exchange->fit(make_bucket_plan(parts_.gradients, order, limits));
  if (!is_forced && plan.buckets == parts_.plan.buckets) return;
  stop_thread();
  parts_.communicators->waits().is_cancelled = false;
  if (error_ == nullptr)
    record_errors(0, [&] {
      parts_.communicators->waits().use_waits_between_steps();
      parts_.plan = std::move(plan);
      parts_.hooks.compression->repack(parts_.plan);
      parts_.exchange->use_plan(parts_.plan, parts_.communicators->current().collectives());
      make_buckets();
    });
  start_thread();
  require_no_error();
}

// Hot path: the threads of backward call mark() for each gradient in each pass. In host memory,
// mark() takes a lock only to wake the plan's thread.
//
// The decrement of `missing` also publishes the gradient. The decrements of a bucket form a release
// sequence, so a thread that reads 0 sees the values that all marking threads have written. The
// recorder is called before the decrement, because after the decrement another thread may exchange
// the bucket.
bool BucketScheduler::mark(std::size_t gradient, void* stream) {
  if (device_ != nullptr) require_no_error();
  if (!marks_.mark(gradient)) return false;
  const std::size_t index = parts_.plan.bucket_of[gradient];
  if (device_ != nullptr) {
    mark_on_device(gradient, stream);
    if (capture_ != Capture::kNone) {
      mark_in_capture(index);
      return true;
    }
  }
  flight_->mark_in_step(gradient, steps_);
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
  // next_, no wake-up is needed: the plan's thread or the caller exchanges the bucket after next_
  // has reached `index`.
  if (buckets_[index]->missing.fetch_sub(1) == 1 && index == next_.load()) wake();
  return true;
}

void BucketScheduler::wake() {
  if (!is_asleep_.load()) return;
  const std::scoped_lock lock(sleep_mutex_);
  wake_.notify_one();
}

// Does not wake the plan's thread. Otherwise the caller, which ends the pass next, might have to
// wait until the thread has exchanged a bucket.
void BucketScheduler::mark_all() {
  for (std::size_t i = 0; i < marks_.size(); ++i)
    if (marks_.mark(i)) {
      flight_->mark_in_step(i, steps_);
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

// error_ does not change after has_error_ is set, until replace().
void BucketScheduler::require_no_error() const {
  if (has_error_) std::rethrow_exception(error_);
}

// end_step() of a hook may call repack(), which joins the plan's thread. So this function calls
// end_step() after finish_exchange() has released run_mutex_.
const StepReport& BucketScheduler::wait() {
  HORO_CHECK(capture_ == Capture::kNone,
             "wait() cannot end a step that is being captured: call wait_on()");
  finish_exchange();
  report();
  for (StepHook* hook : hooks_) hook->end_step(*this, report_);
  return report_;
}

const StepReport& BucketScheduler::report() {
  if (is_report_complete_) return report_;
  await_device();
  {
    const std::scoped_lock lock(run_mutex_);
    StepExchange step = exchange_of(report_);
    record_errors(0, [&] {
      for (StepHook* hook : hooks_) hook->complete(step);
    });
  }
  require_no_error();
  is_report_complete_ = true;
  return report_;
}

// The caller waits for the end of the step, so it exchanges the remaining buckets itself. This
// avoids a wake-up of the plan's thread, and the waits follow the policy of the caller. If the
// plan's thread holds run_mutex_, it completes its bucket. caller_exchanges_ then makes the thread
// leave the next bucket to the caller. Relaxed stores are enough, because run_mutex_ determines
// which thread exchanges. The thread cannot read an outdated `true` when a bucket of the next step
// is complete, because the marks of that step happen after the store of `false`.
std::unique_lock<std::mutex> BucketScheduler::lock_as_caller() {
  caller_exchanges_.store(true, std::memory_order_relaxed);
  std::unique_lock lock(run_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) await_own_thread(lock);
  caller_exchanges_.store(false, std::memory_order_relaxed);
  return lock;
}

// After an error, error_ and the marks stay set until replace(). The ranks may have exchanged
// different buckets, so the plan cannot continue.
void BucketScheduler::finish_exchange() {
  const metrics::Blocked blocked(meter_.rank_meter());
  std::unique_lock lock = lock_as_caller();
  if (error_ == nullptr) {
    parts_.communicators->waits().use_spin_waits();
    while (next_ < buckets_.size() && error_ == nullptr) run_next(false);
  }
  if (error_ == nullptr)
    record_errors(buckets_.size() - 1, [&] {
      if (device_ == nullptr) flight_->conclude();
      for (StepHook* hook : hooks_) hook->end_exchange(*step_);
      parts_.exchange->end_step();
      if (!step_->is_skipped()) parts_.hooks.compression->count_step();
      if (device_ == nullptr)
        for (StepHook* hook : hooks_) hook->complete(*step_);
    });
  require_no_error();
  close_step(blocked);
  lock.unlock();
  if (device_ != nullptr) wake();
}

// Requires run_mutex_.
void BucketScheduler::close_step(const metrics::Blocked& blocked) {
  report_ = std::move(next_report_);
  is_report_complete_ = device_ == nullptr;
  if (device_ == nullptr) end_step();
  if (meter_.is_on()) meter_.end_step(blocked, take_wire_bytes());
  marks_.end_step();
  ++steps_;
  reset_buckets();
}

// Waits for run_mutex_, which the plan's thread holds while it exchanges a bucket. Records the wait
// if the times of that bucket are recorded. Reads next_ without the lock. An outdated value only
// affects whether the wait is recorded. In device memory, the thread only enqueues and polls.
void BucketScheduler::await_own_thread(std::unique_lock<std::mutex>& lock) {
  const std::size_t bucket = next_;
  const bool is_recorded =
      device_ == nullptr && bucket < buckets_.size() && flight_->is_timed(bucket);
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

// Requires run_mutex_.
void BucketScheduler::record_errors(std::size_t bucket, const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    if (device_ == nullptr)
      set_error(bucket, std::current_exception());
    else
      set_error(device_->current_bucket(), device_->fail());
  }
}

// Requires run_mutex_. After a CommunicationError, the job cannot continue, so fail() records that
// this rank has failed. After any other error, give_up() records that only this plan has ended. An
// example is the MismatchError of PlanUpdateRendezvous. The recorder is called first, because a
// caller that sees has_error_ may end the process.
void BucketScheduler::set_error(std::size_t bucket, const std::exception_ptr& error) {
  if (error_ != nullptr) return;
  try {
    std::rethrow_exception(error);
  } catch (const CommunicationError& failure) {
    flight_->fail(bucket, failure.what());
  } catch (...) {
    flight_->give_up();
  }
  error_ = error;
  has_error_ = true;
}

// Requires run_mutex_ and that bucket next_ is complete. Both threads exchange the buckets with
// this function, so the order is the same on every rank. Increments next_ even after an error. In
// that case, error_ prevents further exchanges.
void BucketScheduler::run_next(bool is_on_own_thread) {
  const std::size_t index = next_;
  if (device_ == nullptr) begin_bucket(index);
  record_errors(index, [&] {
    if (index == 0) begin_exchange();
    exchange_bucket(index, is_on_own_thread);
  });
  ++next_;
}

StepExchange BucketScheduler::exchange_of(StepReport& report) {
  return {.collectives = parts_.communicators->current().collectives(),
          .memory = parts_.exchange->memory(),
          .count = callbacks_.count,
          .report = report};
}

// Runs on the thread that exchanges the first bucket. Tuning may have swapped the communicators
// after the previous step, so each step gets a new step_ with the current communicator. The caller
// may still read the report of the previous step, so this step has a separate report. The total
// weight is initially the number of ranks, as if all weights were 1. StepWeights replaces it.
void BucketScheduler::begin_exchange() {
  next_report_ = {.was_exchanged = true, .total_weight = static_cast<double>(topology_.size)};
  step_.emplace(exchange_of(next_report_));
  for (StepHook* hook : hooks_) hook->begin_exchange(*step_);
}

void BucketScheduler::exchange_bucket(std::size_t index, bool is_on_own_thread) {
  PlanExchange& exchange = *parts_.exchange;
  const bool is_skipped = step_->is_skipped();
  exchange.prepare(index);
  if (is_skipped) {
    exchange.skip(index);
  } else {
    BucketExchange how{.gradients = parts_.plan.buckets[index],
                       .is_compressed = exchange.is_compressed(index),
                       .op = op_};
    for (StepHook* hook : hooks_) hook->before_bucket(*step_, how);
    exchange.exchange(index, how);
    for (StepHook* hook : hooks_) hook->after_bucket(*step_, how);
  }
  if (device_ != nullptr) return;
  flight_->finish(index, is_on_own_thread);
  meter_.end_exchange(is_skipped ? 0 : buckets_[index]->bytes);
  if (!is_skipped) callbacks_.count(buckets_[index]->bytes, buckets_[index]->tensors);
}

// The loop of the plan's own thread. The thread checks without a lock whether the next bucket is
// complete, and again under run_mutex_. After an error, it exchanges nothing more. replace() starts
// a new thread.
void BucketScheduler::run_thread(const std::string& log_label) {
  set_log_label(log_label);
  ask_for_short_slices();
  if (device_ != nullptr) {
    const std::scoped_lock lock(run_mutex_);
    record_errors(0, [&] { device_->serve_thread(); });
  }
  const auto may_exchange = [&] { return is_next_complete() && !caller_exchanges_; };
  while (!should_stop_) {
    if (may_exchange()) {
      const std::scoped_lock lock(run_mutex_);
      // Meanwhile, the caller may have exchanged the bucket, and may even have begun another step.
      if (!may_exchange()) continue;
      if (error_ != nullptr) return;
      // The program may compute on this core meanwhile, so waits for other ranks sleep.
      parts_.communicators->waits().use_sleep_waits();
      run_next(true);
      continue;
    }
    if (has_in_flight() && !poll()) return;
    std::unique_lock lock(sleep_mutex_);
    is_asleep_ = true;
    if (has_in_flight())
      wake_.wait_for(lock, kPollInterval, [&] { return should_stop_ || may_exchange(); });
    else
      wake_.wait(lock, [&] { return should_stop_ || may_exchange() || has_in_flight(); });
    is_asleep_ = false;
  }
  if (device_ != nullptr) finish_in_flight();
}

}  // namespace horo::plan
