#include "horo/coordinator/bucket_runner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/log.h"
#include "horo/base/short_slices.h"
#include "horo/coordinator/plan_records.h"

namespace horo::coordinator {

BucketRunner::BucketRunner(Parts parts, int local_rank, ReduceOp op, OnBucket on_bucket,
                           observe::FlightRecorder& recorder, std::string name,
                           std::string process_set, metrics::StepMeter meter)
    : parts_(std::move(parts)),
      local_rank_(local_rank),
      op_(op),
      on_bucket_(std::move(on_bucket)),
      recorder_(recorder),
      name_(std::move(name)),
      process_set_(std::move(process_set)),
      meter_(std::move(meter)),
      marks_(parts_.gradients.size()) {
  make_buckets();
  start_thread();
}

void BucketRunner::make_buckets() {
  buckets_.clear();
  for (const std::vector<std::size_t>& members : parts_.plan.buckets) {
    auto bucket = std::make_unique<Bucket>(parts_.gradients[members.front()].tensor.type());
    for (std::size_t i : members)
      bucket->buffer.add(parts_.gradients[i].tensor.data(), parts_.gradients[i].tensor.count());
    if (!parts_.compressed.covers(buckets_.size())) bucket->mapped = map_bucket(members);
    bucket->tensors = members.size();
    buckets_.push_back(std::move(bucket));
  }
  flight_.emplace(recorder_,
                  describe_to_recorder(name_, process_set_, parts_.gradients, parts_.plan, op_));
  prepare_step();
}

std::optional<collectives::MappedBuffer> BucketRunner::map_bucket(
    const std::vector<std::size_t>& members) const {
  const auto& addresses = parts_.mapped.addresses;
  if (addresses.empty()) return std::nullopt;
  for (std::size_t i : members)
    if (addresses[i].empty()) return std::nullopt;
  collectives::MappedBuffer buffer(parts_.gradients[members.front()].tensor.type(),
                                   static_cast<int>(addresses[members.front()].size()),
                                   local_rank_);
  for (std::size_t i : members) buffer.add(addresses[i], parts_.gradients[i].tensor.count());
  return buffer;
}

BucketRunner::~BucketRunner() { stop_thread(); }

void BucketRunner::start_thread() {
  should_stop_ = false;
  parts_.waits->is_cancelled = false;
  thread_ = std::jthread([this, label = log_label()] { run_thread(label); });
}

void BucketRunner::stop_thread() {
  {
    const std::scoped_lock lock(sleep_mutex_);
    should_stop_ = true;
    parts_.waits->is_cancelled = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void BucketRunner::replace(Parts parts) {
  stop_thread();
  {
    const std::scoped_lock lock(marks_mutex_);
    marks_ = std::vector<std::atomic<bool>>(parts.gradients.size());
  }
  was_touched_.clear();
  // What refers to others goes first.
  buckets_.clear();
  prelude_ = nullptr;
  parts_.communicator.reset();
  parts_.spare.reset();
  former_wire_ = {};
  parts_ = std::move(parts);
  error_ = nullptr;
  meter_.drop_step();
  narrowed_bytes_ = 0;
  make_buckets();
  start_thread();
}

void BucketRunner::repack(BucketPlan plan, CompressedPlan compressed) {
  stop_thread();
  compressed.go_on_from(parts_.compressed);
  parts_.plan = std::move(plan);
  parts_.compressed = std::move(compressed);
  make_buckets();
  start_thread();
}

void BucketRunner::drop_spare() {
  if (parts_.spare == nullptr) return;
  former_wire_ += parts_.spare->wire_report();
  parts_.spare.reset();
}

WireReport BucketRunner::wire_report() const {
  WireReport report = former_wire_;
  if (parts_.spare != nullptr) report += parts_.spare->wire_report();
  return report += parts_.communicator->wire_report();
}

bool BucketRunner::mark(std::size_t gradient) {
  if (marks_[gradient].exchange(true, std::memory_order_relaxed)) return false;
  const std::size_t index = parts_.plan.bucket_of[gradient];
  flight_->mark(gradient);
  if (!is_held_) {
    const std::size_t missing = buckets_[index]->missing.load(std::memory_order_relaxed);
    if (missing == buckets_[index]->tensors) flight_->first(index);
    if (missing == 1) flight_->complete(index);
  }
  if (buckets_[index]->missing.fetch_sub(1) == 1 && index == next_.load() && is_asleep_.load()) {
    const std::scoped_lock lock(sleep_mutex_);
    wake_.notify_one();
  }
  return true;
}

void BucketRunner::mark_all() {
  for (std::size_t i = 0; i < marks_.size(); ++i)
    if (!marks_[i].exchange(true, std::memory_order_relaxed)) {
      flight_->mark(i);
      buckets_[parts_.plan.bucket_of[i]]->missing.fetch_sub(1);
    }
}

std::vector<std::size_t> BucketRunner::unmarked() const {
  const std::scoped_lock lock(marks_mutex_);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < marks_.size(); ++i)
    if (!marks_[i].load(std::memory_order_relaxed)) found.push_back(i);
  return found;
}

bool BucketRunner::are_all_marked() const {
  return std::ranges::all_of(marks_, [](const auto& mark) { return mark.load(); });
}

bool BucketRunner::is_any_marked() const {
  return std::ranges::any_of(marks_, [](const auto& mark) { return mark.load(); });
}

bool BucketRunner::is_any_touched() const {
  return std::ranges::any_of(was_touched_, [](std::uint8_t touched) { return touched != 0; });
}

void BucketRunner::set_held(bool is_held) {
  is_held_ = is_held;
  was_touched_.resize(marks_.size(), 0);
  prepare_step();
}

void BucketRunner::end_pass() {
  was_touched_.resize(marks_.size(), 0);
  for (std::size_t i = 0; i < marks_.size(); ++i)
    was_touched_[i] |= static_cast<std::uint8_t>(marks_[i].load(std::memory_order_relaxed));
  prepare_step();
}

void BucketRunner::set_unused(std::size_t gradient) {
  const TensorView& tensor = parts_.gradients[gradient].tensor;
  if (tensor.count() > 0) std::memset(tensor.data(), 0, tensor.bytes());
}

bool BucketRunner::has_failed() const {
  const std::scoped_lock lock(run_mutex_);
  return error_ != nullptr;
}

void BucketRunner::wait() {
  const metrics::Blocked blocked(meter_.rank_meter());
  caller_waits_ = true;
  std::unique_lock lock(run_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) await_own_thread(lock);
  caller_waits_ = false;
  if (error_ == nullptr) {
    parts_.waits->keep_the_core();
    while (next_ < buckets_.size() && error_ == nullptr) run_next(false);
    if (parts_.treatment != nullptr && error_ == nullptr) finish_step();
  }
  if (error_ != nullptr) std::rethrow_exception(error_);
  if (!is_skipped()) parts_.compressed.end_step();
  std::ranges::fill(was_touched_, std::uint8_t{0});
  flight_->end_step();
  if (meter_.is_on()) meter_.end_step(blocked, take_wire_bytes());
  prepare_step();
}

// Until the bucket that the thread is exchanging is through.
void BucketRunner::await_own_thread(std::unique_lock<std::mutex>& lock) {
  const std::size_t bucket = next_;
  const bool is_recorded = bucket < buckets_.size() && flight_->is_timed(bucket);
  const std::int64_t since = is_recorded ? observe::flight_clock() : 0;
  lock.lock();
  if (is_recorded) flight_->record_wait(since);
}

// What the latest step has sent, if anything but the gradients' own bytes.
std::optional<std::uint64_t> BucketRunner::take_wire_bytes() {
  const std::uint64_t before = std::exchange(narrowed_bytes_, wire_report().bytes_sent);
  if (is_skipped()) return std::nullopt;
  const CompressionFigures& step = parts_.compressed.report().latest_step;
  if (step.bytes_sent != step.bytes_uncompressed) return step.bytes_sent;
  if (narrowed_bytes_ == before) return std::nullopt;
  return narrowed_bytes_ - before;
}

// Requires that no bucket is being run.
void BucketRunner::prepare_step() {
  // One more than there are, in a step that is held: it never comes to zero.
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    buckets_[b]->missing = parts_.plan.buckets[b].size() + (is_held_ ? 1 : 0);
  for (std::atomic<bool>& mark : marks_) mark.store(false, std::memory_order_relaxed);
  next_ = 0;
}

bool BucketRunner::is_next_complete() const {
  const std::size_t next = next_.load();
  return next < buckets_.size() && buckets_[next]->missing.load() == 0;
}

void BucketRunner::exchange(const Bucket& bucket, ReduceOp op) {
  collectives::Communicator& communicator = *parts_.communicator;
  if (parts_.compressed.covers(next_))
    parts_.compressed.allreduce(next_, bucket.buffer, communicator.collectives(), op);
  else if (bucket.mapped)
    communicator.collectives().allreduce_mapped(*bucket.mapped, op);
  else
    communicator.allreduce(bucket.buffer, op);
}

void BucketRunner::exchange_treated(const Bucket& bucket) {
  StepTreatment& treatment = *parts_.treatment;
  if (next_ == 0) treatment.begin(collectives());
  if (is_skipped()) return;
  const std::vector<std::size_t>& members = parts_.plan.buckets[next_];
  exchange(bucket, treatment.before(members, op_, parts_.compressed.covers(next_)));
  treatment.after(members);
}

// Requires run_mutex_ and that the next bucket is complete.
void BucketRunner::run_next(bool is_on_own_thread) {
  const std::size_t index = next_;
  const Bucket& bucket = *buckets_[index];
  flight_->start(index);
  meter_.begin_exchange();
  try {
    if (index == 0 && prelude_) prelude_(collectives());
    if (parts_.treatment == nullptr)
      exchange(bucket, op_);
    else
      exchange_treated(bucket);
    flight_->finish(index, is_on_own_thread);
    meter_.end_exchange(is_skipped() ? 0 : bucket.buffer.bytes());
    on_bucket_(bucket.buffer.bytes(), bucket.tensors);
  } catch (const CommunicationError& error) {
    flight_->fail(index, error.what());
    error_ = std::current_exception();
  } catch (...) {
    flight_->give_up();
    error_ = std::current_exception();
  }
  ++next_;
}

void BucketRunner::finish_step() {
  report_ = {.was_exchanged = true};
  flight_->conclude();
  try {
    parts_.treatment->end(collectives(), report_);
  } catch (const CommunicationError& error) {
    flight_->fail(buckets_.size() - 1, error.what());
    error_ = std::current_exception();
  } catch (...) {
    flight_->give_up();
    error_ = std::current_exception();
  }
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
      parts_.waits->nap_only();
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
