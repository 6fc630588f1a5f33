#include "horo/coordinator/device_lane.h"

#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"
#include "horo/base/log.h"
#include "horo/base/short_slices.h"
#include "horo/coordinator/stall_watch.h"

namespace horo::coordinator {
namespace {

using std::chrono::steady_clock;

// How often the thread looks at what the device is doing.
constexpr std::chrono::microseconds kLookInterval{100};
constexpr const char* kGone = "the DeviceOperations of this operation have been destroyed";

}  // namespace

DeviceOperation::~DeviceOperation() {
  if (joints_ != nullptr) lane_->recycle(joints_);
}

DeviceLane::DeviceLane(DeviceExecutor::Parts parts, std::uint8_t number, OnOperation on_operation,
                       EndJob end_job, observe::FlightRecorder& recorder,
                       const std::string& process_set)
    : number_(number),
      topology_(parts.topology),
      on_operation_(std::move(on_operation)),
      flights_(recorder, process_set),
      executor_(std::make_unique<DeviceExecutor>(std::move(parts))),
      policy_(executor_->waits().of_caller),
      watch_(policy_, executor_->device(), &executor_->collectives(), topology_,
             std::move(end_job)),
      thread_([this, label = log_label()] { run(label); }) {}

DeviceLane::~DeviceLane() { close(); }

void DeviceLane::close() {
  if (executor_ == nullptr) return;
  {
    const std::scoped_lock lock(mutex_);
    should_stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
  executor_.reset();
  {
    const std::scoped_lock lock(mutex_);
    is_closed_ = true;
    given_up_.clear();
    streams_.clear();
    free_joints_.clear();
    joints_.clear();
  }
  changed_.notify_all();
}

DeviceLane::Joints* DeviceLane::take_joints() {
  if (free_joints_.empty()) {
    device::Device& device = executor_->device();
    joints_.push_back(std::make_unique<Joints>(
        Joints{device.make_event(), device.make_event(), device.make_event()}));
    free_joints_.reserve(joints_.size());
    return joints_.back().get();
  }
  Joints* joints = free_joints_.back();
  free_joints_.pop_back();
  return joints;
}

void DeviceLane::recycle(Joints* joints) noexcept {
  const std::scoped_lock lock(mutex_);
  if (!is_closed_) free_joints_.push_back(joints);
}

device::Stream& DeviceLane::stream_of(void* native) {
  std::unique_ptr<device::Stream>& stream = streams_[native];
  if (stream == nullptr) stream = executor_->device().borrow_stream(native);
  return *stream;
}

// The thread that gives the work to the device is in no capture.
void DeviceLane::require_no_capture(void* native) {
  HORO_CHECK(stream_of(native).captured_in() == nullptr,
             "an operation by name cannot be part of a graph: give it to a stream that is not "
             "being captured");
}

std::shared_ptr<DeviceOperation> DeviceLane::open(void* native) {
  home_.require_home();
  auto operation = std::make_shared<DeviceOperation>(shared_from_this());
  const std::scoped_lock lock(mutex_);
  if (error_ != nullptr) std::rethrow_exception(error_);
  if (is_closed_) throw ShutdownError(kGone);
  require_no_capture(native);
  with_device([&] {
    Joints* joints = take_joints();
    stream_of(native).record(*joints->ready);
    operation->joints_ = joints;
  });
  return operation;
}

void DeviceLane::take(const Response& response, std::vector<Entry> entries, std::int64_t agreed) {
  const std::scoped_lock lock(mutex_);
  if (should_stop_)
    throw CommunicationError(fmt::format("{} destroyed its DeviceOperations before '{}' was done",
                                         topology_.describe(topology_.rank),
                                         entries.front().request.name));
  agreed_.push_back({response, std::move(entries), agreed, {}, {}});
  if (error_ != nullptr) return fail(error_);
  changed_.notify_all();
}

// What is wrong with its output is left to the caller.
void DeviceLane::await_stage(const DeviceOperation& operation, Completion& completion) {
  home_.require_home();
  std::unique_lock lock(mutex_);
  if (operation.stage_ == Stage::kSubmitted && !is_closed_) {
    lock.unlock();
    completion.wait();
    lock.lock();
    changed_.wait(lock, [&] { return is_closed_ || operation.stage_ != Stage::kSubmitted; });
  }
  if (operation.stage_ != Stage::kSubmitted) return;
  if (completion.is_done()) completion.wait();  // it may say more
  throw ShutdownError(kGone);
}

void DeviceLane::await_given(const DeviceOperation& operation, Completion& completion) {
  forbid_blocking_in_callbacks();
  await_stage(operation, completion);
  const std::scoped_lock lock(mutex_);
  if (operation.error_ != nullptr) std::rethrow_exception(operation.error_);
}

void DeviceLane::wait_on(const DeviceOperation& operation, Completion& completion, void* native) {
  await_given(operation, completion);
  const std::scoped_lock lock(mutex_);
  // By now the device may be through with it, or have failed.
  if (operation.error_ != nullptr) std::rethrow_exception(operation.error_);
  if (operation.stage_ == Stage::kDone) return;
  require_no_capture(native);
  with_device([&] { stream_of(native).wait(*operation.done_); });
}

void DeviceLane::wait(const DeviceOperation& operation, Completion& completion) {
  forbid_blocking_in_callbacks();
  await_stage(operation, completion);
  WaitPolicy patient = policy_;  // the thread looks at the clock, once the device has begun
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
  const std::scoped_lock lock(mutex_);
  // That the device is through does not mean that all is well.
  if (!is_closed_ && operation.stage_ == Stage::kGiven && watch_.has_failed()) fail(watch_.error());
  if (operation.error_ != nullptr) std::rethrow_exception(operation.error_);
}

bool DeviceLane::has_ended(const DeviceOperation& operation) const {
  if (is_closed_ || operation.stage_ == Stage::kDone) return true;
  return operation.stage_ == Stage::kGiven && operation.done_->is_done();
}

bool DeviceLane::is_done(const DeviceOperation& operation, const Completion& completion) const {
  if (completion.is_done() && completion.error() != nullptr) return true;
  const std::scoped_lock lock(mutex_);
  try {
    return has_ended(operation);
  } catch (const Error&) {
    return false;  // the thread is about to say so
  }
}

// By the caller: what the device says first is the error of the lane too.
void DeviceLane::with_device(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error&) {
    fail(watch_.error());
    std::rethrow_exception(error_);
  }
}

void DeviceLane::end(Work& work, const std::exception_ptr& error) {
  for (Entry& entry : work.entries) {
    DeviceOperation& operation = *entry.on_device;
    operation.stage_ = Stage::kDone;
    if (error != nullptr) operation.error_ = error;
    // What failed may still be under way.
    if (error == nullptr) free_joints_.push_back(operation.joints_);
    operation.joints_ = nullptr;
    operation.done_ = nullptr;
  }
}

std::string DeviceLane::describe(const Work* work) const {
  if (work == nullptr && !under_way_.empty()) work = &under_way_.front();
  if (work == nullptr && !agreed_.empty()) work = &agreed_.front();
  if (work == nullptr) return fmt::format("operations on {}", executor_->device().describe());
  return fmt::format("{} {}", name_of(work->response.kind),
                     quote_operation(work->entries.front().request.name, topology_));
}

void DeviceLane::fail(const std::exception_ptr& error, const Work* work) noexcept {
  if (error_ == nullptr) {
    error_ = error;
    try {
      error_ = watch_.end_job(error, describe(work));
      std::rethrow_exception(error_);
    } catch (const CommunicationError& failure) {
      flights_.fail(failure.what());
      executor_->collectives().abort(failure.what());
    } catch (const std::exception& failure) {
      executor_->collectives().abort(failure.what());
    }
  }
  for (std::deque<Work>* list : {&under_way_, &agreed_}) {
    for (Work& ended : *list) {
      end(ended, error_);
      given_up_.push_back(std::move(ended.substitute));
    }
    list->clear();
  }
  changed_.notify_all();
}

// To the recorder it begins when the device comes to it: what the program has it do before is no
// exchange.
void DeviceLane::begin(Work& work) {
  work.since = steady_clock::now();
  for (Entry& entry : work.entries) flights_.open(entry);
  flights_.agree(work.agreed);
  flights_.start(work.entries);
}

void DeviceLane::give_next_to_device(std::unique_lock<std::mutex>& lock) {
  Work work = std::move(agreed_.front());
  agreed_.pop_front();
  // The first one connects the ranks, which the host waits for.
  if (!std::exchange(has_connected_, true)) begin(work);
  std::vector<const device::Event*> ready;
  for (const Entry& entry : work.entries) ready.push_back(entry.on_device->joints_->ready.get());
  const Joints& joints = work.joints();
  lock.unlock();
  DeviceExecutor::Given given;
  std::exception_ptr error;
  try {
    given = executor_->execute(work.response, work.entries, ready, *joints.begun, *joints.done);
  } catch (const std::exception&) {
    error = watch_.error();
  }
  lock.lock();
  work.substitute = std::move(given.substitute);
  if (error == nullptr && error_ == nullptr) {
    for (Entry& entry : work.entries) {
      entry.on_device->stage_ = Stage::kGiven;
      entry.on_device->done_ = joints.done.get();
      if (!given.mistake.empty())
        entry.on_device->error_ = std::make_exception_ptr(InvalidArgument(given.mistake));
    }
  }
  under_way_.push_back(std::move(work));
  // Another thread may have found a failure meanwhile.
  if (error == nullptr) error = error_;
  if (error != nullptr) return fail(error, &under_way_.back());
  changed_.notify_all();
}

void DeviceLane::look_at_device() {
  try {
    for (; !under_way_.empty(); under_way_.pop_front()) {
      Work& front = under_way_.front();
      if (!front.since && !front.joints().begun->is_done()) break;
      if (!front.since) begin(front);
      // What has failed is told before the device is through with what comes of it.
      if (!front.joints().done->is_done() || watch_.has_failed()) break;
      flights_.finish(front.entries);
      std::size_t bytes = 0;
      for (const Entry& entry : front.entries) bytes += entry.request.bytes();
      on_operation_(bytes, front.entries.size());
      end(front, nullptr);
    }
  } catch (const Error&) {
    return fail(watch_.error());
  }
  if (watch_.has_failed()) return fail(watch_.error());
  if (under_way_.empty() || !under_way_.front().since) return;
  const Work& front = under_way_.front();
  if (watch_.is_overdue(*front.since))
    fail(watch_.overdue_error(*front.since,
                              fmt::format("end the {} '{}'", name_of(front.response.kind),
                                          front.entries.front().request.name)));
}

void DeviceLane::run(const std::string& label) {
  set_log_label(label);
  ask_for_short_slices();
  std::unique_lock lock(mutex_);
  try {
    executor_->device().serve_thread();
  } catch (const DeviceError&) {
    fail(std::current_exception());
  }
  while (error_ == nullptr) {
    look_at_device();
    if (error_ != nullptr) return;
    if (!agreed_.empty()) {
      give_next_to_device(lock);
      continue;
    }
    if (under_way_.empty() && should_stop_) return;
    if (under_way_.empty())
      changed_.wait(lock, [&] { return should_stop_ || error_ != nullptr || !agreed_.empty(); });
    else
      changed_.wait_for(lock, kLookInterval);
  }
}

}  // namespace horo::coordinator
