#pragma once

namespace horo::device {

/// A point in the work of a stream, set by the latest Stream::record(). Thread-safe.
class Event {
 public:
  virtual ~Event() = default;
  /// Whether all work before the point has completed; true if no point was recorded. Does not
  /// block. Throws DeviceError if that work has failed.
  virtual bool is_done() const = 0;
  /// Blocks the calling thread until is_done(). Throws DeviceError if the work has failed.
  virtual void synchronize() const = 0;
};

}  // namespace horo::device
