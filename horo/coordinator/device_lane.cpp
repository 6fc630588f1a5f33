#include "horo/coordinator/device_lane.h"

#include <fmt/format.h>

#include <utility>

#include "horo/base/error.h"
#include "horo/coordinator/stall_watch.h"

namespace horo::coordinator {
namespace {

constexpr const char* kGone = "the DeviceOperations of this operation have been destroyed";

}  // namespace

DeviceOperation::~DeviceOperation() {
  if (joints_ != nullptr) lane_->recycle(joints_);
}

DeviceLane::DeviceLane(DeviceExecutor::Parts parts, std::uint8_t number, OnOperation on_operation,
                       EndJob end_job, observe::FlightRecorder& recorder,
                       const std::string& process_set)
    : DeviceThread(parts.device, *parts.waits, parts.collectives.get(), parts.topology,
                   std::move(end_job)),
      number_(number),
      topology_(parts.topology),
      on_operation_(std::move(on_operation)),
      flights_(recorder, process_set),
      executor_(std::make_unique<DeviceExecutor>(std::move(parts))) {
  start();
}

DeviceLane::~DeviceLane() { close(); }

void DeviceLane::close() {
  if (executor_ == nullptr) return;
  stop(std::unique_lock(mutex_));
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
    joints_.push_back(std::make_unique<Joints>(
        Joints{device_.make_event(), device_.make_event(), device_.make_event()}));
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

// The thread that gives the work to the device is in no capture.
void DeviceLane::require_no_capture(void* native) {
  HORO_CHECK(!is_captured(native),
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
  agreed_.push_back({{}, response, std::move(entries), agreed, {}});
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

std::string DeviceLane::name_of(const Work& work) const {
  return fmt::format("{} {}", coordinator::name_of(work.response.kind),
                     quote_operation(work.entries.front().request.name, topology_));
}

std::string DeviceLane::work_at_hand() const {
  if (!under_way_.empty()) return name_of(under_way_.front());
  if (!agreed_.empty()) return name_of(agreed_.front());
  return fmt::format("operations on {}", device_.describe());
}

void DeviceLane::record_failure(std::string_view why) noexcept {
  if (!why.empty()) flights_.fail(why);
}

void DeviceLane::drop_work() noexcept {
  for (std::deque<Work>* list : {&under_way_, &agreed_}) {
    for (Work& work : *list) {
      end(work, error_);
      given_up_.push_back(std::move(work.substitute));
    }
    list->clear();
  }
}

// To the recorder it begins when the device comes to it: what the program has it do before is no
// exchange.
void DeviceLane::note_begin(Work& work) {
  for (Entry& entry : work.entries) flights_.open(entry);
  flights_.agree(work.agreed);
  flights_.start(work.entries);
}

void DeviceLane::give_next(std::unique_lock<std::mutex>& lock) {
  Work work = std::move(agreed_.front());
  agreed_.pop_front();
  // The first one connects the ranks, which the host waits for.
  if (!std::exchange(has_connected_, true)) {
    work.since = std::chrono::steady_clock::now();
    note_begin(work);
  }
  std::vector<const device::Event*> ready;
  for (const Entry& entry : work.entries) ready.push_back(entry.on_device->joints_->ready.get());
  const Joints& joints = *work.entries.front().on_device->joints_;
  work.begun = joints.begun.get();
  work.done = joints.done.get();
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
  const std::string name = name_of(work);
  under_way_.push_back(std::move(work));
  // Another thread may have found a failure meanwhile.
  if (error == nullptr) error = error_;
  if (error != nullptr) return fail(error, name);
  changed_.notify_all();
}

void DeviceLane::end_oldest() {
  Work& front = under_way_.front();
  flights_.finish(front.entries);
  std::size_t bytes = 0;
  for (const Entry& entry : front.entries) bytes += entry.request.bytes();
  on_operation_(bytes, front.entries.size());
  end(front, nullptr);
  under_way_.pop_front();
}

std::string DeviceLane::duty_of_oldest() const {
  const Work& front = under_way_.front();
  return fmt::format("end the {} '{}'", coordinator::name_of(front.response.kind),
                     front.entries.front().request.name);
}

}  // namespace horo::coordinator
