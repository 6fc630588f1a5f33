#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "horo/base/device/graph.h"
#include "horo/base/device/host_queue.h"

namespace horo::device {

class HostCapture;

/// An event's record in a capture.
struct CapturedPoint {
  std::shared_ptr<HostCapture> capture;
  std::size_t number;               ///< among the capture's
  std::vector<std::size_t> before;  ///< how much of each stream's work it comes after
};

/// What streams of the host are given while they are captured, in the place of doing it. A stream
/// takes part once it waits for an event that was recorded in the capture. What CUDA does not allow
/// meanwhile makes the capture invalid, as it does there. Thread-safe.
class HostCapture : public Capture, public std::enable_shared_from_this<HostCapture> {
 public:
  struct Call {
    enum class Kind { kWork, kRecord, kWait };
    Kind kind;
    std::size_t stream;     ///< 0: the one that the graph begins and ends with
    std::size_t point = 0;  ///< that is recorded or waited for
    HostQueue::Work work = {};
  };
  /// Calls in an order that keeps their streams' and their events'.
  struct Calls {
    std::vector<Call> in_order;
    std::size_t streams, points;
    std::vector<std::shared_ptr<const void>> kept;
  };

  /// Throws DeviceError if `origin` is being captured.
  static std::shared_ptr<HostCapture> begin(HostQueue& origin);

  void work(HostQueue& stream, HostQueue::Work work);
  std::shared_ptr<const CapturedPoint> record(HostQueue& stream);
  /// `stream` takes part from now on. Throws DeviceError if the capture has ended, or the stream
  /// takes part in another.
  void wait(HostQueue& stream, const CapturedPoint& point);
  /// Makes it invalid, unless it has ended, and throws DeviceError with `what`.
  [[noreturn]] void refuse(const std::string& what);

  /// No stream is captured any more. Throws DeviceError if the capture is invalid, or a stream has
  /// work that the origin has not waited for.
  Calls end();
  /// The same, for an error's sake.
  void abandon() noexcept;

 private:
  struct Member {
    std::shared_ptr<HostQueue> queue;
    std::vector<std::size_t> before;  // how much of each stream's work its next call comes after
  };
  // Require mutex_.
  std::size_t number_of(const HostQueue& stream) const;
  void require_open() const;
  void add(Call call);
  void let_go();

  std::mutex mutex_;
  std::vector<Member> members_;  // guarded by mutex_, as what follows
  std::vector<Call> calls_;
  std::size_t points_ = 0;
  bool has_ended_ = false;
  std::string why_invalid_;
};

}  // namespace horo::device
