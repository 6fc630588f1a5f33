#include "horo/coordinator/device_operation_queue.h"

#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"
#include "horo/coordinator/stall_watch.h"

namespace horo::coordinator {
namespace {

// The maximum time for which a wait delays the error of failed work, so that the device can end the
// work. The device may be unable to end it while an earlier kernel of the program runs.
constexpr std::chrono::seconds kTimeToRelease{2};
constexpr const char* kClosed = "horo has been shut down on this rank";

}  // namespace

DeviceOperation::~DeviceOperation() {
  if (events_ != nullptr) queue_->recycle(events_);
}

DeviceOperationQueue::DeviceOperationQueue(std::shared_ptr<device::Device> device,
                                           std::uint8_t number, const Topology& topology,
                                           std::unique_ptr<PlanWaits> waits, Connect connect,
                                           OnOperation on_operation, EndJob end_job,
                                           observe::FlightRecorder& recorder)
    : DeviceWorker(*device, *waits, topology, std::move(end_job)),
      shared_device_(std::move(device)),
      waits_(std::move(waits)),
      number_(number),
      topology_(topology),
      connect_(std::move(connect)),
      on_operation_(std::move(on_operation)),
      flights_(recorder, topology.set_name()) {}

DeviceOperationQueue::~DeviceOperationQueue() { close(); }

// The caller owns the coordinator's rounds, so the ranks call connect_ at the same position in the
// sequence of collectives.
void DeviceOperationQueue::connect(collectives::Collectives& control) {
  {
    const std::scoped_lock lock(mutex_);
    if (is_connected_) return;
  }
  Connection connection = connect_(*waits_, control);
  if (connection.executor == nullptr) throw DeviceError(connection.error_text);
  executor_ = std::move(connection.executor);
  {
    const std::scoped_lock lock(mutex_);
    is_connected_ = true;
  }
  start(&executor_->collectives());
}

// Stops the thread first, because the thread uses the executor. Destroys the executor before the
// events, because the destructor of the executor waits for work that uses the events. Frees events
// and streams under the lock, because another thread may destroy an operation, which calls
// recycle().
void DeviceOperationQueue::close() {
  {
    const std::scoped_lock lock(mutex_);
    if (is_closed_) return;
  }
  stop(std::unique_lock(mutex_));
  executor_.reset();
  {
    const std::scoped_lock lock(mutex_);
    is_closed_ = true;
    given_up_.clear();
    streams_.clear();
    free_event_sets_.clear();
    event_sets_.clear();
  }
  changed_.notify_all();
}

// Reserves room for all sets in the free list. Otherwise recycle(), which a destructor calls, would
// have to allocate memory.
DeviceOperationQueue::EventSet* DeviceOperationQueue::take_event_set() {
  if (free_event_sets_.empty()) {
    event_sets_.push_back(std::make_unique<EventSet>(
        EventSet{device_.make_event(), device_.make_event(), device_.make_event()}));
    free_event_sets_.reserve(event_sets_.size());
    return event_sets_.back().get();
  }
  EventSet* events = free_event_sets_.back();
  free_event_sets_.pop_back();
  return events;
}

void DeviceOperationQueue::recycle(EventSet* events) noexcept {
  const std::scoped_lock lock(mutex_);
  if (!is_closed_) free_event_sets_.push_back(events);
}

// The queue's thread enqueues operations on streams that are not part of a capture. Without this
// check, the operation would be missing in the graph.
void DeviceOperationQueue::require_no_capture(void* native) {
  HORO_CHECK(
      !is_captured(native),
      "a named operation cannot be part of a graph: pass a stream that is not being captured");
}

// `operation` is declared before the lock. If this function throws, it unlocks mutex_ before it
// destroys `operation`, whose destructor may lock mutex_.
std::shared_ptr<DeviceOperation> DeviceOperationQueue::open(void* native) {
  home_.require_home();
  auto operation = std::make_shared<DeviceOperation>(shared_from_this());
  const std::scoped_lock lock(mutex_);
  if (error_ != nullptr) std::rethrow_exception(error_);
  if (is_closed_) throw ShutdownError(kClosed);
  require_no_capture(native);
  with_device([&] {
    EventSet* events = take_event_set();
    stream_of(native).record(*events->ready);
    operation->events_ = events;
  });
  return operation;
}

// The owner of the coordinator's rounds calls this function in the order of the responses, which is
// the same on all ranks. Therefore agreed_ has the same order on all ranks.
void DeviceOperationQueue::add(const Response& response, std::vector<Entry> entries,
                               std::int64_t agreed) {
  const std::scoped_lock lock(mutex_);
  agreed_.push_back({{}, response, std::move(entries), agreed, {}});
  if (error_ != nullptr) return fail(error_);
  changed_.notify_all();
}

// Waits until the operation is launched or has ended. Throws the error of `completion` if there is
// one, and ShutdownError if the queue was closed before the launch. Does not throw
// operation.error_, because the callers throw it.
void DeviceOperationQueue::await_stage(const DeviceOperation& operation, Completion& completion) {
  home_.require_home();
  std::unique_lock lock(mutex_);
  if (operation.stage_ == Stage::kSubmitted && !is_closed_) {
    lock.unlock();
    completion.wait();
    lock.lock();
    changed_.wait(lock, [&] { return is_closed_ || operation.stage_ != Stage::kSubmitted; });
  }
  if (operation.stage_ != Stage::kSubmitted) return;
  if (completion.is_done()) completion.wait();  // may throw a more specific error
  throw ShutdownError(kClosed);
}

void DeviceOperationQueue::await_launched(const DeviceOperation& operation,
                                          Completion& completion) {
  forbid_blocking_in_callbacks();
  await_stage(operation, completion);
  throw_error_of(operation);
}

// Throws the error of the operation, if there is one. A caller that gets an error may free the
// tensors, so the function first waits until the device has ended the failed work.
void DeviceOperationQueue::throw_error_of(const DeviceOperation& operation) {
  std::unique_lock lock(mutex_);
  if (operation.error_ == nullptr) return;
  if (error_ != nullptr && is_connected_)
    changed_.wait_for(lock, kTimeToRelease, [&] { return is_released_ || is_closed_; });
  std::rethrow_exception(operation.error_);
}

// The destructor of the executor waits until the device has ended the work.
void DeviceOperationQueue::release_device(std::unique_lock<std::mutex>& lock) {
  forget_collectives();
  lock.unlock();
  executor_.reset();
  lock.lock();
  is_released_ = true;
  changed_.notify_all();
}

void DeviceOperationQueue::wait_on(const DeviceOperation& operation, Completion& completion,
                                   void* native) {
  await_launched(operation, completion);
  const std::scoped_lock lock(mutex_);
  // The operation may have ended since await_launched(), with or without an error.
  if (operation.error_ != nullptr) std::rethrow_exception(operation.error_);
  if (operation.stage_ == Stage::kDone) return;
  require_no_capture(native);
  with_device([&] { stream_of(native).wait(*operation.done_); });
}

// Releases the lock between two polls, so that the queue's thread can work. Calls watch_.error()
// inside the handler, because watch_.error() may return the exception that is being handled.
void DeviceOperationQueue::wait(const DeviceOperation& operation, Completion& completion) {
  forbid_blocking_in_callbacks();
  await_stage(operation, completion);
  WaitPolicy patient = policy_;  // the queue's thread checks the deadline
  patient.timeout = std::chrono::years(1);
  try {
    for (Waiter waiter(patient);; waiter.pause("for the device")) {
      const std::scoped_lock lock(mutex_);
      if (has_ended(operation)) break;
    }
  } catch (const Error&) {
    const std::scoped_lock lock(mutex_);
    if (operation.stage_ != Stage::kDone) fail(watch_.error());
  }
  {
    const std::scoped_lock lock(mutex_);
    // The device may report work as complete although its collective has failed.
    if (!is_closed_ && operation.stage_ == Stage::kLaunched && watch_.has_failed())
      fail(watch_.error());
  }
  throw_error_of(operation);
}

bool DeviceOperationQueue::has_ended(const DeviceOperation& operation) const {
  if (is_closed_ || operation.stage_ == Stage::kDone) return true;
  return operation.stage_ == Stage::kLaunched && operation.done_->is_done();
}

bool DeviceOperationQueue::is_done(const DeviceOperation& operation,
                                   const Completion& completion) const {
  if (completion.is_done() && completion.error() != nullptr) return true;
  const std::scoped_lock lock(mutex_);
  try {
    return has_ended(operation);
  } catch (const Error&) {
    return false;  // the queue's thread also observes the error and then ends the operation
  }
}

// If the ranks do not agree on the operation, the coordinator's thread calls `callback` with the
// error. Otherwise `callback` must wait for the end of the operation.
void DeviceOperationQueue::then(const std::shared_ptr<DeviceOperation>& operation,
                                Completion& completion, Completion::Callback callback) {
  completion.then(
      [this, operation, callback = std::move(callback)](const std::exception_ptr& error) mutable {
        if (error != nullptr)
          callback(error);
        else
          add_callback(*operation, std::move(callback));
      });
}

void DeviceOperationQueue::add_callback(DeviceOperation& operation, Completion::Callback callback) {
  {
    const std::scoped_lock lock(mutex_);
    if (operation.stage_ != Stage::kDone) {
      operation.callbacks_.push_back(std::move(callback));
      return;
    }
  }
  run_callback(std::move(callback), operation.error_);
}

void DeviceOperationQueue::run_callbacks(std::unique_lock<std::mutex>& lock) {
  auto due = std::exchange(due_callbacks_, {});
  lock.unlock();
  for (auto& [callback, error] : due) run_callback(std::move(callback), error);
  lock.lock();
}

// Clears events_, so that ~DeviceOperation() does not lock mutex_, which the caller holds.
void DeviceOperationQueue::end(Work& work, const std::exception_ptr& error) {
  for (Entry& entry : work.entries) {
    DeviceOperation& operation = *entry.on_device;
    operation.stage_ = Stage::kDone;
    if (error != nullptr) operation.error_ = error;
    // Does not reuse the events of failed work, because the device may still use them.
    if (error == nullptr) free_event_sets_.push_back(operation.events_);
    operation.events_ = nullptr;
    operation.done_ = nullptr;
    for (Completion::Callback& callback : operation.callbacks_)
      due_callbacks_.emplace_back(std::move(callback), operation.error_);
    operation.callbacks_.clear();
  }
}

std::string DeviceOperationQueue::name_of(const Work& work) const {
  return fmt::format("{} {}", coordinator::name_of(work.response.kind),
                     quote_operation(work.entries.front().request.name, topology_));
}

std::string DeviceOperationQueue::describe_current() const {
  if (!under_way_.empty()) return name_of(under_way_.front());
  if (!agreed_.empty()) return name_of(agreed_.front());
  return fmt::format("operations on {}", device_.describe());
}

void DeviceOperationQueue::record_failure(std::string_view why) noexcept {
  if (!why.empty()) flights_.fail(why);
}

void DeviceOperationQueue::drop_work() noexcept {
  for (std::deque<Work>* list : {&under_way_, &agreed_}) {
    for (Work& work : *list) {
      end(work, error_);
      given_up_.push_back(std::move(work.substitute));
    }
    list->clear();
  }
}

// Opens the flight records of the work and records its start. The thread calls this function when
// it observes that the device has begun the work. Therefore the recorded execution does not include
// earlier work of the program's stream. For the first work of the queue, launch_next() calls this
// function before the launch.
void DeviceOperationQueue::note_begin(Work& work) {
  for (Entry& entry : work.entries) flights_.open(entry);
  flights_.agree(work.agreed);
  flights_.start(work.entries);
}

// Releases the lock during execute(), which may block while the ranks connect. Meanwhile, the work
// is neither in agreed_ nor in under_way_, so fail() on another thread does not drop the work.
// Therefore the function checks error_ after it has locked mutex_ again.
void DeviceOperationQueue::launch_next(std::unique_lock<std::mutex>& lock) {
  Work work = std::move(agreed_.front());
  agreed_.pop_front();
  // The first call of execute() may block while the ranks connect. Therefore the timeout of the
  // first work counts from now and not from the start of the work on the device.
  if (!std::exchange(has_launched_, true)) {
    work.since = std::chrono::steady_clock::now();
    note_begin(work);
  }
  std::vector<const device::Event*> ready;
  for (const Entry& entry : work.entries) ready.push_back(entry.on_device->events_->ready.get());
  const EventSet& events = *work.entries.front().on_device->events_;
  work.begun = events.begun.get();
  work.done = events.done.get();
  lock.unlock();
  DeviceExecutor::LaunchResult result;
  std::exception_ptr error;
  try {
    result = executor_->execute(work.response, work.entries, ready, *events.begun, *events.done);
  } catch (const std::exception&) {
    error = watch_.error();
  }
  lock.lock();
  work.substitute = std::move(result.substitute);
  if (error == nullptr && error_ == nullptr) {
    for (Entry& entry : work.entries) {
      entry.on_device->stage_ = Stage::kLaunched;
      entry.on_device->done_ = events.done.get();
      if (!result.error_text.empty())
        entry.on_device->error_ = std::make_exception_ptr(InvalidArgument(result.error_text));
    }
  }
  const std::string name = name_of(work);
  under_way_.push_back(std::move(work));
  // Another thread may have called fail() while the lock was released.
  if (error == nullptr) error = error_;
  if (error != nullptr) return fail(error, name);
  changed_.notify_all();
}

void DeviceOperationQueue::end_oldest() {
  Work& front = under_way_.front();
  flights_.finish(front.entries);
  std::size_t bytes = 0;
  for (const Entry& entry : front.entries) bytes += entry.request.bytes();
  on_operation_(bytes, front.entries.size());
  end(front, nullptr);
  under_way_.pop_front();
}

std::string DeviceOperationQueue::describe_oldest() const {
  const Work& front = under_way_.front();
  return fmt::format("end the {} '{}'", coordinator::name_of(front.response.kind),
                     front.entries.front().request.name);
}

}  // namespace horo::coordinator
