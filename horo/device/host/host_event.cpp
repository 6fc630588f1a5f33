#include "horo/device/host/host_event.h"

#include <utility>

#include "horo/base/error.h"
#include "horo/device/host/host_capture.h"

namespace horo::device {

// The failure is stored before waiters are notified. The failure then fails the streams that wait
// for this point.
void HostPoint::reach(const std::string& failure) {
  {
    const std::scoped_lock lock(mutex_);
    is_reached_ = true;
    failure_ = failure;
    reached_at_ = std::chrono::steady_clock::now();
  }
  changed_.notify_all();
}

bool HostPoint::is_reached() const {
  const std::scoped_lock lock(mutex_);
  return look();
}

void HostPoint::await() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return look(); });
}

std::chrono::steady_clock::time_point HostPoint::reached_at() const {
  const std::scoped_lock lock(mutex_);
  if (!look())
    throw DeviceError("the time of an event was requested before the event was complete");
  return reached_at_;
}

bool HostPoint::look() const {
  if (!failure_.empty()) throw DeviceError(failure_);
  return is_reached_;
}

bool HostEvent::is_done() const {
  forbid_in_capture();
  const auto point = latest();
  return point == nullptr || point->is_reached();
}

void HostEvent::synchronize() const {
  forbid_in_capture();
  if (const auto point = latest()) point->await();
}

std::chrono::steady_clock::time_point HostEvent::came_at() const {
  const auto point = latest();
  if (point == nullptr)
    throw DeviceError("the time of an event that was never recorded was requested");
  return point->reached_at();
}

// Makes a new point for each record. Threads that still wait for the earlier point hold a reference
// to the earlier point.
std::shared_ptr<HostPoint> HostEvent::renew() {
  const std::scoped_lock lock(mutex_);
  captured_ = nullptr;
  return latest_ = std::make_shared<HostPoint>();
}

void HostEvent::renew_in_capture(std::shared_ptr<const CapturedPoint> point) {
  const std::scoped_lock lock(mutex_);
  captured_ = std::move(point);
  latest_ = nullptr;
}

std::shared_ptr<const CapturedPoint> HostEvent::captured() const {
  const std::scoped_lock lock(mutex_);
  return captured_;
}

void HostEvent::forbid_in_capture() const {
  if (const auto point = captured())
    point->capture->refuse("an event that was last recorded in a capture is queried or waited for");
}

std::shared_ptr<HostPoint> HostEvent::latest() const {
  const std::scoped_lock lock(mutex_);
  return latest_;
}

}  // namespace horo::device
