#include "horo/base/device/host_event.h"

#include "horo/base/error.h"

namespace horo::device {

void HostPoint::reach(const std::string& failure) {
  {
    const std::scoped_lock lock(mutex_);
    is_reached_ = true;
    failure_ = failure;
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

bool HostPoint::look() const {
  if (!failure_.empty()) throw DeviceError(failure_);
  return is_reached_;
}

bool HostEvent::is_done() const {
  const auto point = latest();
  return point == nullptr || point->is_reached();
}

void HostEvent::synchronize() const {
  if (const auto point = latest()) point->await();
}

std::shared_ptr<HostPoint> HostEvent::renew() {
  const std::scoped_lock lock(mutex_);
  return latest_ = std::make_shared<HostPoint>();
}

std::shared_ptr<HostPoint> HostEvent::latest() const {
  const std::scoped_lock lock(mutex_);
  return latest_;
}

}  // namespace horo::device
