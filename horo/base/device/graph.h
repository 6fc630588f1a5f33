#pragma once

#include <memory>
#include <mutex>
#include <vector>

namespace horo::device {

class Stream;

/// What is being made into a graph. Thread-safe.
class Capture {
 public:
  virtual ~Capture() = default;
  /// Keeps `object` as long as the graph lives; if there will be none, until the capture ends.
  void keep(std::shared_ptr<const void> object);

 protected:
  /// For the graph.
  std::vector<std::shared_ptr<const void>> take_kept();

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<const void>> kept_;  // guarded by mutex_
};

/// Work of one or several streams, as Device::capture() has found it: what is done with which
/// arguments, and in which order. It can be done again any number of times, for the host's cost of
/// one launch. What it reads and writes must stay where it is. Used by one thread at a time.
class Graph {
 public:
  /// Waits for its launches.
  virtual ~Graph() = default;
  /// Gives all of it to `stream`, on which it comes after what the stream has been given before and
  /// ahead of what it is given later. Launches are done one after the other. Does not block. Throws
  /// DeviceError, also for a stream that is being captured.
  virtual void launch(Stream& stream) = 0;
};

}  // namespace horo::device
