#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace horo::device {

class Stream;

/// The state of a capture. Thread-safe.
class Capture {
 public:
  virtual ~Capture() = default;
  /// Keeps `object` for the lifetime of the graph. If the capture fails, keeps `object` until the
  /// capture ends.
  void keep(std::shared_ptr<const void> object);

 protected:
  /// Moves the kept objects to the caller.
  std::vector<std::shared_ptr<const void>> take_kept();

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<const void>> kept_;  // guarded by mutex_
};

inline void Capture::keep(std::shared_ptr<const void> object) {
  const std::scoped_lock lock(mutex_);
  kept_.push_back(std::move(object));
}

inline std::vector<std::shared_ptr<const void>> Capture::take_kept() {
  const std::scoped_lock lock(mutex_);
  return std::move(kept_);
}

/// The work of one or more streams that Device::capture() has recorded, with its arguments and
/// order. The graph can be executed any number of times. Each execution has the host cost of one
/// launch. The memory that the graph reads and writes must not move. Used by one thread at a time.
class Graph {
 public:
  /// Waits for all launches.
  virtual ~Graph() = default;
  /// Submits all work to `stream`, after the earlier and before the later work of the stream.
  /// Launches of one graph run one after the other. Does not block. Throws DeviceError, also if the
  /// stream is being captured.
  virtual void launch(Stream& stream) = 0;
};

}  // namespace horo::device
