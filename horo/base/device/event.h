#pragma once

namespace horo::device {

/// A point in the work of a stream: that of the latest Stream::record(). Thread-safe.
class Event {
 public:
  virtual ~Event() = default;
  /// Whether all work before the point is done; true if none was ever recorded. Never blocks.
  /// Throws DeviceError if that work has failed.
  virtual bool is_done() const = 0;
  /// Blocks the calling thread until is_done(). Throws likewise.
  virtual void synchronize() const = 0;
};

}  // namespace horo::device
