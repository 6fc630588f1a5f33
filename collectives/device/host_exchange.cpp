#include "collectives/device/host_exchange.h"

#include <chrono>
#include <exception>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/system/threads.h"
#include "horo/base/text/log.h"

namespace horo::collectives {
namespace {

using device::Priority;

// While the thread waits for the device, it polls and yields for kYieldTime, and then sleeps for
// kPollInterval between polls.
constexpr std::chrono::microseconds kYieldTime{50};
constexpr std::chrono::microseconds kPollInterval{20};

}  // namespace

HostExchange::HostExchange(device::Device& device, std::size_t slot_bytes, FirstFailure& failure)
    : device_(device),
      slot_bytes_(slot_bytes),
      failure_(failure),
      signal_(device.make_signal()),
      down_(device.make_stream(Priority::kHigh)),
      up_(device.make_stream(Priority::kHigh)) {
  for (Slot& slot : slots_) {
    slot.staging = device.allocate(slot_bytes);
    slot.pinned = device.allocate_pinned(slot_bytes);
    for (auto* event : {&slot.begun, &slot.down, &slot.returned}) *event = device.make_event();
  }
  thread_ = std::thread([this, label = log_label()] { run(label); });
}

HostExchange::~HostExchange() { finish(); }

HostExchange::Slot& HostExchange::next(device::Stream& stream) {
  Slot& slot = slots_[uses_++ % kSlots];
  stream.wait(*slot.returned);
  return slot;
}

// up_ also waits for slot.down: after a failure, the thread may raise the signal before the copies
// down are complete.
void HostExchange::pass(Slot& slot, device::Stream& stream, std::span<const Down> down, Work work,
                        std::span<const Up> up) {
  std::byte* const pinned = slot.pinned.data();
  stream.record(*slot.begun);
  down_->wait(*slot.begun);
  for (const Down& piece : down) down_->copy(pinned + piece.offset, piece.at, piece.bytes);
  down_->record(*slot.down);

  const std::uint32_t number = submit(*down_, [this, work = std::move(work), pinned] {
    if (!failure_.is_set()) work(pinned);
  });
  up_->wait(*slot.down);
  up_->wait(*signal_, number);
  for (const Up& piece : up) up_->copy(piece.at, pinned + piece.offset, piece.bytes);
  up_->record(*slot.returned);
}

void HostExchange::await_all(device::Stream& stream) {
  for (const Slot& slot : slots_) stream.wait(*slot.returned);
}

void HostExchange::call(device::Stream& stream, std::function<void()> work) {
  stream.wait(*signal_, submit(stream, std::move(work)));
}

// Returns the number to which the thread raises the signal after `work`. Each task has an event of
// its own, because the host may enqueue the next use of a slot before the device has reached this
// one.
std::uint32_t HostExchange::submit(device::Stream& stream, std::function<void()> work) {
  std::unique_ptr<device::Event> reached;
  {
    const std::scoped_lock lock(mutex_);
    if (!free_events_.empty()) {
      reached = std::move(free_events_.back());
      free_events_.pop_back();
    }
  }
  if (reached == nullptr) reached = device_.make_event();
  stream.record(*reached);
  const std::uint32_t number = ++tasks_submitted_;
  {
    const std::scoped_lock lock(mutex_);
    tasks_.push_back({std::move(reached), std::move(work), number});
  }
  changed_.notify_all();
  return number;
}

void HostExchange::run(const std::string& label) {
  set_log_label(label);
  ask_for_short_slices();
  try {
    device_.serve_thread();
  } catch (const std::exception& error) {
    failure_.set(error.what());
  }
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !tasks_.empty() || is_ending_; });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    await(*task.reached);
    try {
      task.work();
    } catch (const std::exception& error) {
      failure_.set(error.what());
    }
    signal_->raise(task.number);
    lock.lock();
    free_events_.push_back(std::move(task.reached));
  }
}

void HostExchange::await(const device::Event& reached) {
  using std::chrono::steady_clock;
  const auto begin = steady_clock::now();
  try {
    while (!failure_.is_set() && !reached.is_done()) {
      if (steady_clock::now() - begin < kYieldTime)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(kPollInterval);
    }
  } catch (const std::exception& error) {
    failure_.set(error.what());
  }
}

void HostExchange::finish() noexcept {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  for (device::Stream* stream : {down_.get(), up_.get()}) {
    try {
      stream->synchronize();
    } catch (const DeviceError&) {
      // The code that waits for the exchange also receives this error.
    }
  }
}

}  // namespace horo::collectives
