#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "horo/device/graph.h"
#include "horo/device/host/host_queue.h"

namespace horo::device {

class HostCapture;

/// A record of an event in a capture.
struct CapturedPoint {
  std::shared_ptr<HostCapture> capture;
  std::size_t number;               ///< index of the point in the capture
  std::vector<std::size_t> before;  ///< by stream: number of work calls before the point
};

/// Records the calls of host streams instead of executing them. A stream joins the capture when it
/// waits for an event that was recorded in the capture. Calls that CUDA forbids in a capture make
/// the capture invalid, as in CUDA. Thread-safe.
class HostCapture : public Capture, public std::enable_shared_from_this<HostCapture> {
 public:
  struct Call {
    enum class Kind { kWork, kRecord, kWait };
    Kind kind;
    /// The index of the stream. 0 is the origin, with which the graph begins and ends.
    std::size_t stream;
    std::size_t point = 0;  ///< for kRecord and kWait: the number of the point
    HostQueue::Work work = {};
  };
  /// The calls in an order that respects the order of each stream and of the events.
  struct Calls {
    std::vector<Call> in_order;
    std::size_t streams, points;
    std::vector<std::shared_ptr<const void>> kept;
  };

  /// Throws DeviceError if `origin` is being captured.
  static std::shared_ptr<HostCapture> begin(HostQueue& origin);

  void work(HostQueue& stream, HostQueue::Work work);
  std::shared_ptr<const CapturedPoint> record(HostQueue& stream);
  /// Adds `stream` to the capture. Throws DeviceError if the capture has ended, or if the stream
  /// belongs to another capture.
  void wait(HostQueue& stream, const CapturedPoint& point);
  /// Makes the capture invalid unless it has ended, and throws DeviceError with `what`.
  [[noreturn]] void refuse(const std::string& what);

  /// Ends the capture of all streams. Throws DeviceError if the capture is invalid, or if a stream
  /// has work for which the origin has not waited.
  Calls end();
  /// Ends the capture after an error.
  void abandon() noexcept;

 private:
  struct Member {
    std::shared_ptr<HostQueue> queue;
    std::vector<std::size_t> before;  // by stream: number of work calls before the next call
  };
  // Require mutex_.
  std::size_t number_of(const HostQueue& stream) const;
  void require_open() const;
  void add(Call call);
  void let_go();

  std::mutex mutex_;
  std::vector<Member> members_;  // guarded by mutex_, as are the members below
  std::vector<Call> calls_;
  std::size_t points_ = 0;
  bool has_ended_ = false;
  std::string why_invalid_;
};

}  // namespace horo::device
