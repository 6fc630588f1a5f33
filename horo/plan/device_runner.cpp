#include "horo/plan/device_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "horo/base/error.h"
#include "horo/coordinator/stall_watch.h"
#include "horo/device/host/host_device.h"

namespace horo::plan {
namespace {

using std::chrono::steady_clock;

}  // namespace

DeviceRunner::DeviceRunner(Parts parts, const collectives::ChunkPipeline::ReduceSpec& spec,
                           OnBucket on_bucket, observe::FlightRecorder& recorder,
                           const std::string& name, const std::string& process_set)
    : coordinator::DeviceWorker(parts.device, *parts.waits, parts.topology,
                                std::move(parts.end_job)),
      parts_(std::move(parts)),
      name_(name),
      spec_(spec),
      on_bucket_(std::move(on_bucket)),
      report_{.was_exchanged = true, .total_weight = static_cast<double>(parts_.topology.size)},
      flight_(recorder,
              describe_to_recorder(name, process_set, parts_.gradients, parts_.plan, spec.op)),
      buckets_(parts_.plan.buckets.size()) {
  // These events are made here, so that no step has to make them.
  for (Bucket& bucket : buckets_)
    for (auto* events : {&bucket.begun, &bucket.done})
      for (auto& event : *events) event = parts_.device.make_event();
  begin_step();
  start(parts_.collectives.get());
}

DeviceRunner::~DeviceRunner() {
  std::unique_lock lock(mutex_);
  // If the thread is enqueuing a bucket, the current step is incomplete. The enqueuing call may
  // wait for ranks that do not take part in this step, and is_cancelled ends that wait. With the
  // host stand-in, the call does not wait, and is_cancelled would end exchanges of complete steps.
  if (is_giving_ && !device::is_host(parts_.device)) parts_.waits->is_cancelled = true;
  stop(std::move(lock));
}

// Requires mutex_, unless the thread is not started yet. Keeps the events of the marks for reuse.
void DeviceRunner::begin_step() {
  marks_.assign(parts_.gradients.size(), false);
  next_ = 0;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    buckets_[b].missing = parts_.plan.buckets[b].size();
    for (Mark& mark : buckets_[b].marks) mark.is_set = false;
  }
}

// One event per bucket and stream is enough, because a later mark on a stream includes the work
// before earlier marks on the stream. The event may be recorded again after the exchange of an
// earlier step is enqueued, because that exchange waits for the recording that was the latest when
// it was enqueued.
void DeviceRunner::set_mark(Bucket& bucket, void* native) {
  auto mark = std::ranges::find(bucket.marks, native, &Mark::native);
  if (mark == bucket.marks.end())
    mark = bucket.marks.insert(mark, Mark{native, parts_.device.make_event()});
  stream_of(native).record(*mark->event);
  mark->is_set = true;
}

// The threads of backward call mark(). The runner's thread does not hold mutex_ while it enqueues a
// bucket, so mark() does not wait for that. mark() notifies the thread only when bucket next_
// becomes complete.
bool DeviceRunner::mark(std::size_t gradient, void* native) {
  const std::size_t index = parts_.plan.bucket_of[gradient];
  const std::scoped_lock lock(mutex_);
  if (error_ != nullptr) std::rethrow_exception(error_);
  if (marks_[gradient]) return false;
  Bucket& bucket = buckets_[index];
  if (capture_ != Capture::kNone) {
    mark_in_capture(bucket, gradient, native);
    return true;
  }
  HORO_CHECK(!is_captured(native),
             "ready() on a stream that is being captured: capture the step with "
             "GradientSync::capture()");
  with_device([&] { set_mark(bucket, native); });
  marks_[gradient] = true;
  flight_.mark_in_step(gradient, step_);
  if (bucket.missing == parts_.plan.buckets[index].size()) flight_.first(index);
  if (--bucket.missing > 0) return true;
  flight_.complete(index);
  if (index == next_) changed_.notify_all();
  return true;
}

std::vector<std::size_t> DeviceRunner::unmarked() const {
  const std::scoped_lock lock(mutex_);
  if (error_ != nullptr) std::rethrow_exception(error_);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < marks_.size(); ++i)
    if (!marks_[i]) found.push_back(i);
  return found;
}

std::vector<const device::Event*> DeviceRunner::marks_of(const Bucket& bucket) const {
  std::vector<const device::Event*> events;
  for (const Mark& mark : bucket.marks)
    if (mark.is_set) events.push_back(mark.event.get());
  return events;
}

// Waits on the host until all buckets of the step are enqueued. A stream can wait only for an event
// that is already recorded.
void DeviceRunner::await_all_launched(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [&] { return error_ != nullptr || next_ == buckets_.size(); });
  if (error_ != nullptr) std::rethrow_exception(error_);
}

// Returns the events after which the results of the step are valid. The device exchanges the
// buckets in plan order, so the exchange of the last bucket ends last. If only one rank takes part,
// nothing is exchanged and the results are valid after the marks.
std::vector<const device::Event*> DeviceRunner::ends_of_step() const {
  if (!is_alone()) return {buckets_.back().done[step_ % 2].get()};
  std::vector<const device::Event*> events;
  for (const Bucket& bucket : buckets_)
    std::ranges::copy(marks_of(bucket), std::back_inserter(events));
  return events;
}

void DeviceRunner::wait_on(void* native) {
  std::unique_lock lock(mutex_);
  if (capture_ != Capture::kNone) return wait_on_in_capture(native);
  HORO_CHECK(!is_captured(native),
             "wait_on() on a stream that is being captured: capture the step with "
             "GradientSync::capture()");
  await_all_launched(lock);
  with_device([&] {
    device::Stream& stream = stream_of(native);
    for (const device::Event* event : ends_of_step()) stream.wait(*event);
  });
  ++step_;
  begin_step();
}

const StepReport& DeviceRunner::wait() {
  std::unique_lock lock(mutex_);
  HORO_CHECK(capture_ == Capture::kNone,
             "wait() cannot end a step that is being captured: call wait_on()");
  await_all_launched(lock);
  const std::vector<const device::Event*> ends = ends_of_step();
  lock.unlock();
  await(ends);
  lock.lock();
  // await() also returns if the exchange has failed, so check for an error.
  require_no_error();
  ++step_;
  begin_step();
  return report_;
}

// If only one rank takes part, the gradient is not moved, because nothing is exchanged.
ReducedGradient DeviceRunner::reduced(std::size_t index) const {
  const TensorView& own = parts_.gradients[index].tensor;
  ReducedGradient where{own.data(), own.type(), 1};
  if (!spec_.leave_as_reduced || is_alone()) return where;
  const std::size_t bucket = parts_.plan.bucket_of[index];
  const auto& members = parts_.plan.buckets[bucket];
  const auto& layout = parts_.layouts[bucket];
  where.scale = collectives::ChunkPipeline::factor_left(spec_, layout.type(), layout.wire(),
                                                        parts_.collectives->size());
  const auto place = static_cast<std::size_t>(std::ranges::find(members, index) - members.begin());
  if (const auto offset = layout.offset_of(place)) {
    where.type = layout.wire();
    where.data = parts_.pipeline->buffer() + layout.place() + *offset * size_of(where.type);
  }
  return where;
}

void DeviceRunner::check() {
  const std::scoped_lock lock(mutex_);
  require_no_error();
}

// Returns when the events are complete or the plan has failed. Polls without mutex_, because the
// runner's thread needs mutex_ to detect a failure. An error of this wait, for example a timeout,
// fails the plan, unless the plan has failed already.
void DeviceRunner::await(const std::vector<const device::Event*>& events) {
  const auto has_failed = [&] {
    const std::scoped_lock lock(mutex_);
    return error_ != nullptr;
  };
  Waiter waiter(policy_);
  try {
    for (const device::Event* event : events)
      while (!event->is_done() && !has_failed()) waiter.pause("for the device");
  } catch (const Error&) {
    const std::scoped_lock lock(mutex_);
    if (error_ == nullptr) fail(watch_.error());
  }
}

// A step uses the same events as the step before the previous one. The exchange of the bucket in
// that step must have ended before the events are recorded again. In a capture, the thread that
// calls mark() enqueues the buckets.
bool DeviceRunner::has_next() const {
  if (should_stop_ || capture_ != Capture::kNone || next_ == buckets_.size() ||
      buckets_[next_].missing > 0)
    return false;
  const device::Event* done = buckets_[next_].done[step_ % 2].get();
  return std::ranges::find(under_way_, done, &UnderWay::done) == under_way_.end();
}

// Enqueues without mutex_, because the first exchange may wait for other ranks and later exchanges
// may block in the driver. The bucket does not change meanwhile: all its gradients are marked, so
// mark() rejects further marks, and no step begins before next_ has passed this bucket.
void DeviceRunner::launch_next(std::unique_lock<std::mutex>& lock) {
  const std::size_t index = next_;
  const Bucket& bucket = buckets_[index];
  device::Event& begun = *bucket.begun[step_ % 2];
  device::Event& done = *bucket.done[step_ % 2];
  const std::vector<const device::Event*> ready = marks_of(bucket);
  // The call that enqueues the first exchange may wait until the ranks are connected. So the
  // recorder gets the start of the exchange before the call, and the timeout of the exchange counts
  // from the end of the call.
  const bool is_first = step_ == 0 && index == 0;
  if (is_first) flight_.start(index);
  is_giving_ = true;
  lock.unlock();
  std::exception_ptr error;
  try {
    if (!is_alone() && index == 0) parts_.pipeline->begin_step();
    if (!is_alone()) parts_.pipeline->allreduce(parts_.layouts[index], spec_, ready, done, &begun);
  } catch (const std::exception&) {
    error = watch_.error();
  }
  lock.lock();
  is_giving_ = false;
  if (error != nullptr) {
    refused_ = index;
    return fail(error);
  }
  Exchange exchange{{}, index, index + 1, step_};
  if (!is_alone()) exchange.begun = &begun, exchange.done = &done;
  if (is_first) exchange.since = steady_clock::now();
  under_way_.push_back(exchange);
  ++next_;
  changed_.notify_all();
}

// The launch of a graph covers all buckets. The recorder keeps the bucket of the latest start() as
// the progress of the step, so this function calls start() for the first bucket last.
void DeviceRunner::begin_oldest() {
  const Exchange& front = under_way_.front();
  for (std::size_t b = front.end; b-- > front.bucket;) flight_.start(b);
}

// Notifies callers that wait in launch() or release().
void DeviceRunner::end_oldest() {
  const Exchange front = under_way_.front();
  for (std::size_t b = front.bucket; b < front.end; ++b) {
    flight_.finish(b, true);
    on_bucket_(parts_.layouts[b].bytes(), parts_.plan.buckets[b].size());
  }
  if (front.end == buckets_.size()) flight_.end_step();
  under_way_.pop_front();
  changed_.notify_all();
}

std::string DeviceRunner::describe_oldest() const {
  return fmt::format("exchange bucket {}", under_way_.front().bucket);
}

// Returns null while exchanges of earlier steps are in flight, because the destructor waits for
// them. These exchanges end before the next_ exchanges of this step. So while an earlier exchange
// is in flight, under_way_ has more than next_ entries.
std::exception_ptr DeviceRunner::unfinished() const {
  if (next_ == 0 || under_way_.size() > next_) return nullptr;
  return std::make_exception_ptr(ShutdownError("the plan was destroyed in an incomplete step"));
}

// Returns the bucket to name in an error. This is the bucket that could not be enqueued. If there
// is none, it is the oldest bucket in flight. If no bucket is in flight, it is the bucket to
// enqueue next.
std::size_t DeviceRunner::bucket_at_hand() const {
  if (refused_) return *refused_;
  return under_way_.empty() ? std::min(next_, buckets_.size() - 1) : under_way_.front().bucket;
}

std::string DeviceRunner::name_of(std::size_t bucket) const {
  const std::string name = fmt::format("{}/bucket {}", name_, bucket);
  return fmt::format("allreduce {}", coordinator::quote_operation(name, parts_.topology));
}

void DeviceRunner::record_failure(std::string_view why) noexcept {
  why.empty() ? flight_.give_up() : flight_.fail(bucket_at_hand(), why);
}

}  // namespace horo::plan
