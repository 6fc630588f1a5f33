#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "horo/base/device/event.h"

namespace horo::device {

/// What a stream of the host reaches once.
class HostPoint {
 public:
  /// `failure`: why what comes before it was not done; empty: it was.
  void reach(const std::string& failure);
  /// Throws DeviceError with the failure.
  bool is_reached() const;
  void await() const;
  /// Throws likewise, and if it is not reached.
  std::chrono::steady_clock::time_point reached_at() const;

 private:
  bool look() const;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool is_reached_ = false;  // guarded by mutex_, as what follows
  std::string failure_;
  std::chrono::steady_clock::time_point reached_at_;
};

struct CapturedPoint;

class HostEvent : public Event {
 public:
  bool is_done() const override;
  void synchronize() const override;

  /// Throws DeviceError unless it is done.
  std::chrono::steady_clock::time_point came_at() const;

  /// A point for the stream that records.
  std::shared_ptr<HostPoint> renew();
  /// Of the latest renew(); null: never.
  std::shared_ptr<HostPoint> latest() const;
  /// It stands for a point of a capture from now on, until renew().
  void renew_in_capture(std::shared_ptr<const CapturedPoint> point);
  /// Null: the latest record was not in a capture.
  std::shared_ptr<const CapturedPoint> captured() const;

 private:
  void forbid_in_capture() const;

  mutable std::mutex mutex_;
  std::shared_ptr<HostPoint> latest_;  // guarded by mutex_, as what follows
  std::shared_ptr<const CapturedPoint> captured_;
};

}  // namespace horo::device
