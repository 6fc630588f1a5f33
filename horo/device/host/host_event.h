#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "horo/device/event.h"

namespace horo::device {

/// A point that a host stream reaches once.
class HostPoint {
 public:
  /// `failure` is the error of the work before the point; empty if it succeeded.
  void reach(const std::string& failure);
  /// Throws DeviceError if the work before the point has failed.
  bool is_reached() const;
  void await() const;
  /// Throws DeviceError if the work has failed or the point is not reached.
  std::chrono::steady_clock::time_point reached_at() const;

 private:
  bool look() const;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool is_reached_ = false;  // guarded by mutex_, as are the members below
  std::string failure_;
  std::chrono::steady_clock::time_point reached_at_;
};

struct CapturedPoint;

class HostEvent : public Event {
 public:
  bool is_done() const override;
  void synchronize() const override;

  /// The time at which the event was reached. Throws DeviceError unless the event is complete.
  std::chrono::steady_clock::time_point came_at() const;

  /// Creates a point for the recording stream.
  std::shared_ptr<HostPoint> renew();
  /// The point of the latest renew(); null if there was none.
  std::shared_ptr<HostPoint> latest() const;
  /// Sets a point of a capture, valid until renew().
  void renew_in_capture(std::shared_ptr<const CapturedPoint> point);
  /// The point of a capture; null if the latest record was not in a capture.
  std::shared_ptr<const CapturedPoint> captured() const;

 private:
  void forbid_in_capture() const;

  mutable std::mutex mutex_;
  std::shared_ptr<HostPoint> latest_;  // guarded by mutex_, as are the members below
  std::shared_ptr<const CapturedPoint> captured_;
};

}  // namespace horo::device
