#include "horo/plan/device/device_plan_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "horo/base/error.h"
#include "horo/coordinator/stall_watch.h"
#include "horo/device/host/host_device.h"

namespace horo::plan {
namespace {

using collectives::ChunkPipeline;
using std::chrono::steady_clock;

// The interval at which a thread polls the device while it waits for an earlier step.
constexpr std::chrono::microseconds kBusyPollInterval{50};

}  // namespace

DevicePlanExchange::DevicePlanExchange(Parts parts)
    : parts_(std::move(parts)),
      waits_(std::make_unique<coordinator::PlanWaits>(parts_.policy)),
      watch_(waits_->of_caller, *parts_.device, parts_.topology, parts_.end_job),
      done_in_graph_(parts_.device->make_event()) {
  for (auto& event : ended_) event = parts_.device->make_event();
}

// The pipeline and memory_ wait for their streams, so they are destroyed before the events and the
// collectives.
DevicePlanExchange::~DevicePlanExchange() { release(); }

void DevicePlanExchange::release() {
  memory_.reset();
  pipeline_.reset();
}

bool DevicePlanExchange::uses_memory() const {
  const GradientSyncOptions& options = parts_.options;
  return options.weighted || options.check_finite || options.clip_norm.has_value();
}

device::Stream& DevicePlanExchange::stream_of(void* native) {
  std::unique_ptr<device::Stream>& stream = streams_[native];
  if (stream == nullptr) stream = parts_.device->borrow_stream(native);
  return *stream;
}

bool DevicePlanExchange::is_captured(void* native) {
  const std::scoped_lock lock(marks_mutex_);
  return stream_of(native).captured_in() != nullptr;
}

// One event per bucket and stream is enough, because a later mark on a stream includes the work
// before earlier marks on the stream. The event may be recorded again after the exchange of an
// earlier step is enqueued, because that exchange waits for the recording that was the latest when
// it was enqueued.
void DevicePlanExchange::mark(std::size_t gradient, void* native) {
  const std::scoped_lock lock(marks_mutex_);
  Bucket& bucket = buckets_[plan_.bucket_of[gradient]];
  auto mark = std::ranges::find(bucket.marks, native, &Mark::native);
  if (mark == bucket.marks.end())
    mark = bucket.marks.insert(mark, Mark{native, parts_.device->make_event()});
  stream_of(native).record(*mark->event);
  mark->is_set = true;
}

std::vector<const device::Event*> DevicePlanExchange::marks_of(const Bucket& bucket) {
  const std::scoped_lock lock(marks_mutex_);
  std::vector<const device::Event*> events;
  for (const Mark& mark : bucket.marks)
    if (mark.is_set) events.push_back(mark.event.get());
  return events;
}

void DevicePlanExchange::drop_marks() {
  const std::scoped_lock lock(marks_mutex_);
  for (Bucket& bucket : buckets_)
    for (Mark& mark : bucket.marks) mark.is_set = false;
}

// Work of the program that reads the previous values of the gradient is on the given stream, or
// ordered before it. Without a stream, such work must be complete or precede the marks of the step.
void DevicePlanExchange::set_zero(std::size_t gradient, std::optional<void*> native) {
  if (!native) {
    if (zeroing_ == nullptr) zeroing_ = parts_.device->make_stream();
    for (const Bucket& bucket : buckets_)
      for (const device::Event* event : marks_of(bucket)) zeroing_->wait(*event);
    native = zeroing_->native();
  }
  const TensorView& tensor = parts_.gradients[gradient].tensor;
  if (tensor.count() > 0) {
    const std::scoped_lock lock(marks_mutex_);
    stream_of(*native).fill(tensor.data(), 0, tensor.bytes());
  }
  mark(gradient, *native);
}

void DevicePlanExchange::prepare(std::size_t index) {
  current_ = index;
  if (memory_ == nullptr) return;
  for (const device::Event* event : marks_of(buckets_[index])) memory_->before().wait(*event);
}

// With leave_as_reduced, the factor with which the reader multiplies must not depend on the step,
// but options that change the operation cannot be combined with leave_as_reduced.
ChunkPipeline::ReduceSpec DevicePlanExchange::spec_of(const BucketExchange& how) const {
  return {.op = how.op,
          .prescale = how.has_data ? how.factor : 1,
          .leave_as_reduced = parts_.options.leave_as_reduced};
}

// A step uses the same events as the step before the previous one. The exchange of the bucket in
// that step must have ended before the events are recorded again.
//
// The call that enqueues the first exchange may wait until the ranks are connected. So the
// exchange counts as begun before the call, and its timeout counts from the end of the call.
void DevicePlanExchange::exchange(std::size_t index, const BucketExchange& how) {
  Bucket& bucket = buckets_[index];
  device::Event& begun = *bucket.begun[step_ % 2];
  device::Event& done = *bucket.done[step_ % 2];
  await_free(&done);
  std::vector<const device::Event*> ready;
  if (memory_ == nullptr) {
    ready = marks_of(bucket);
  } else {
    if (!how.has_data) memory_->set_zero_before(bucket.members);
    memory_->before().record(*bucket.prepared[step_ % 2]);
    ready = {bucket.prepared[step_ % 2].get()};
  }
  InFlight exchange{nullptr, nullptr, {}, index, index + 1, step_};
  if (!is_alone()) {
    const bool is_first = !std::exchange(has_exchanged_, true);
    if (is_first) progress_->begin_bucket(index);
    is_enqueuing_ = true;
    if (is_closing_) throw ShutdownError("the plan was destroyed in an incomplete step");
    if (index == 0) pipeline_->begin_step();
    pipeline_->allreduce(layouts_[index], spec_of(how), ready, done, &begun);
    is_enqueuing_ = false;
    exchange.begun = &begun, exchange.done = &done;
    if (is_first) exchange.since = steady_clock::now();
  }
  if (memory_ != nullptr) memory_->after().wait(is_alone() ? *ready.front() : done);
  push(exchange);
}

// The work of end_exchange() of the hooks follows the marks.
void DevicePlanExchange::skip(std::size_t index) {
  memory_->before().record(*buckets_[index].prepared[step_ % 2]);
  memory_->after().wait(*buckets_[index].prepared[step_ % 2]);
  push({nullptr, nullptr, {}, index, index + 1, step_, true});
}

// The device exchanges the buckets in plan order, so the exchange of the last bucket ends last. If
// only one rank takes part, nothing is exchanged and the results are valid after the marks.
void DevicePlanExchange::end_step() {
  ends_.clear();
  if (memory_ != nullptr) {
    memory_->after().record(*ended_[step_ % 2]);
    ends_.push_back(ended_[step_ % 2].get());
  } else if (!is_alone()) {
    ends_.push_back(buckets_.back().done[step_ % 2].get());
  } else {
    for (const Bucket& bucket : buckets_)
      std::ranges::copy(marks_of(bucket), std::back_inserter(ends_));
  }
  ++step_;
  drop_marks();
}

void DevicePlanExchange::join(void* native) {
  const std::scoped_lock lock(marks_mutex_);
  for (const device::Event* event : ends_) stream_of(native).wait(*event);
}

void DevicePlanExchange::await(const CapturedStep& step,
                               const std::function<bool()>& has_failed) const {
  if (step.done() != nullptr) await({step.done()}, has_failed);
}

void DevicePlanExchange::await(const std::vector<const device::Event*>& events,
                               const std::function<bool()>& has_failed) const {
  Waiter waiter(waits_->of_caller);
  for (const device::Event* event : events)
    while (!event->is_done() && !has_failed()) waiter.pause("for the device");
}

// If only one rank takes part, the gradient is not moved, because nothing is exchanged.
ReducedGradient DevicePlanExchange::reduced(std::size_t index) const {
  const TensorView& own = parts_.gradients[index].tensor;
  ReducedGradient where{own.data(), own.type(), 1};
  if (!parts_.options.leave_as_reduced || is_alone()) return where;
  const std::size_t bucket = plan_.bucket_of[index];
  const auto& members = buckets_[bucket].members;
  const auto& layout = layouts_[bucket];
  where.scale =
      ChunkPipeline::factor_left({.op = parts_.options.op, .leave_as_reduced = true}, layout.type(),
                                 layout.wire(), connection_.collectives->size());
  const auto place = static_cast<std::size_t>(std::ranges::find(members, index) - members.begin());
  if (const auto offset = layout.offset_of(place)) {
    where.type = layout.wire();
    where.data = pipeline_->buffer() + layout.place() + *offset * size_of(where.type);
  }
  return where;
}

void DevicePlanExchange::push(const InFlight& exchange) {
  under_way_.push_back(exchange);
  in_flight_ = under_way_.size();
}

void DevicePlanExchange::await_free(const device::Event* done) {
  for (poll(); std::ranges::find(under_way_, done, &InFlight::done) != under_way_.end(); poll())
    std::this_thread::sleep_for(kBusyPollInterval);
}

void DevicePlanExchange::await_step(std::uint64_t step) {
  for (poll(); !under_way_.empty() && under_way_.front().step <= step; poll())
    std::this_thread::sleep_for(kBusyPollInterval);
}

bool DevicePlanExchange::is_only_current_in_flight() const {
  return under_way_.empty() || under_way_.front().step == step_;
}

// The device completes the exchanges in the order in which they were enqueued, so the function
// polls only the oldest one. After a failure, an exchange does not count as complete, because the
// result may be wrong.
void DevicePlanExchange::poll() {
  while (!under_way_.empty()) {
    InFlight& front = under_way_.front();
    current_ = front.bucket;
    if (!front.since) {
      if (front.begun != nullptr && !front.begun->is_done()) break;
      observe(front);
    }
    if ((front.done != nullptr && !front.done->is_done()) || watch_.has_failed()) break;
    const InFlight ended = front;
    under_way_.pop_front();
    for (std::size_t b = ended.bucket; b < ended.end; ++b)
      progress_->end_bucket(b, ended.is_skipped);
    if (ended.end == buckets_.size()) progress_->end_step();
    // The number changes after the progress is reported, so that a caller that sees no exchange in
    // flight finds all of them in the counters.
    in_flight_ = under_way_.size();
  }
  if (watch_.has_failed()) std::rethrow_exception(watch_.error());
  if (under_way_.empty()) return;
  const auto& since = under_way_.front().since;
  if (since && watch_.is_overdue(*since))
    std::rethrow_exception(
        watch_.overdue_error(*since, fmt::format("exchange bucket {}", under_way_.front().bucket)));
  if (parts_.look) parts_.look();
}

// The timeout starts when the device begins the exchange, so it does not include earlier work of
// the program on the device. The launch of a graph covers all buckets. The recorder keeps the
// bucket of the latest begin as the progress of the step, so the first bucket is last.
void DevicePlanExchange::observe(InFlight& exchange) {
  exchange.since = steady_clock::now();
  for (std::size_t b = exchange.end; b-- > exchange.bucket;) progress_->begin_bucket(b);
}

std::string DevicePlanExchange::describe_current() const {
  const std::string name = fmt::format("{}/bucket {}", parts_.name, current_.load());
  return fmt::format("allreduce {}", coordinator::quote_operation(name, parts_.topology));
}

// A MismatchError ends only this plan: all ranks throw it, and update() makes a new plan.
std::exception_ptr DevicePlanExchange::fail() noexcept {
  const std::scoped_lock lock(failure_mutex_);
  if (failure_ != nullptr) return failure_;
  failure_ = watch_.error();
  is_enqueuing_ = false;
  try {
    try {
      std::rethrow_exception(failure_);
    } catch (const MismatchError&) {
      throw;
    } catch (...) {
      failure_ = watch_.end_job(failure_, describe_current());
      std::rethrow_exception(failure_);
    }
  } catch (const std::exception& error) {
    if (connection_.collectives != nullptr) connection_.collectives->abort(error.what());
  }
  return failure_;
}

// With the host stand-in, no call waits, and is_cancelled would end exchanges of complete steps.
void DevicePlanExchange::cancel_enqueuing() {
  is_closing_ = true;
  if (is_enqueuing_ && !device::is_host(*parts_.device)) waits_->is_cancelled = true;
}

void DevicePlanExchange::resume() {
  is_closing_ = false;
  waits_->is_cancelled = false;
}

}  // namespace horo::plan
