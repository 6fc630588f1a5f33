#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/point_to_point.h"

namespace horo::collectives {

/// The source and the destination of the segments of a flow. Segments are numbered from 0 in each
/// direction. The sender and the receiver of a segment must compute the same size. Empty segments
/// are not sent.
class FlowEnds {
 public:
  virtual ~FlowEnds() = default;
  /// Returns the bytes of segment `send`. They are either at their place in the source or gathered
  /// in `slot`. They must stay unchanged until the send is done.
  virtual std::span<const std::byte> outgoing(std::size_t send, std::span<std::byte> slot) = 0;
  /// Returns the memory into which segment `receive` is received. This is either its place in the
  /// destination or the beginning of `slot`.
  virtual std::span<std::byte> incoming(std::size_t receive, std::span<std::byte> slot) = 0;
  /// Called once for each nonempty segment that has arrived, in order, with the span that
  /// incoming() returned.
  virtual void process(std::size_t receive, std::span<const std::byte> bytes) = 0;
  /// Called before incoming(). Returns whether the receive may be posted when sends [0, sends_done)
  /// are done. Returns false if a later send needs the memory that incoming() would return.
  virtual bool may_receive(std::size_t receive, std::size_t sends_done) const;
  /// Called before process(). Returns whether the segment may be processed when sends [0,
  /// sends_done) are done. Returns false if a later send needs the memory that process() would
  /// overwrite.
  virtual bool may_process(std::size_t receive, std::size_t sends_done) const;
};

/// Receives a stream of segments from one rank and sends a stream of segments to one rank. Posts up
/// to kWindow receives ahead. Processes received segments while the next segments are in flight.
/// Posts a send when the segments that it depends on have been processed and fewer than kWindow
/// sends are in flight. A ring of such flows cannot deadlock (see progress() in segment_flow.cpp).
/// Keeps its staging memory, kWindow slots for each direction, between runs. Only one thread at a
/// time may use the object.
class SegmentFlow {
 public:
  /// Segments in flight in each direction.
  static constexpr std::size_t kWindow = 4;

  struct Plan {
    int from = 0;
    int to = 0;
    std::size_t receives = 0;  ///< segments to receive
    std::size_t sends = 0;     ///< segments to send
    std::size_t lead = 0;      ///< send i is posted after i + 1 - lead receives are processed
    std::size_t slot_bytes = 0;
    std::string_view what;  ///< the collective, for error texts; not copied
  };

  /// `rank_names` has one name per rank of `peers`, for error texts. Both must outlive this object.
  SegmentFlow(PointToPoint& peers, const std::vector<std::string>& rank_names)
      : peers_(peers), rank_names_(rank_names) {}

  void run(const Plan& plan, FlowEnds& ends) {
    start(plan, ends);
    finish();
  }

  /// Starts a flow. The caller may do other work between start() and finish(), and advances the
  /// flow meanwhile by calls of progress(). `ends` must exist until finish() has returned.
  void start(const Plan& plan, FlowEnds& ends);
  /// Advances the flow without waiting. Returns whether the flow has advanced, which is false if it
  /// is complete.
  bool progress();
  /// Advances the flow until it is complete. The timeout limits the time without progress, not the
  /// duration.
  void finish();

 private:
  struct InFlight {
    PointToPoint::Ticket ticket;
    std::span<std::byte> bytes;  // set for receives only
  };

  bool is_finished() const { return processed_ >= plan_.receives && sent_ >= plan_.sends; }
  bool post_receives();
  bool process_received();
  bool post_sends();
  bool complete_sends();
  bool is_done(const InFlight& transfer);
  std::span<std::byte> slot(std::size_t index);
  std::string describe_wait() const;

  PointToPoint& peers_;
  const std::vector<std::string>& rank_names_;
  std::vector<std::byte> staging_;
  // The current run:
  Plan plan_;
  FlowEnds* ends_ = nullptr;
  std::deque<InFlight> receives_;  // segments [processed_, processed_ + receives_.size())
  std::deque<InFlight> sends_;     // segments [sent_, sent_ + sends_.size())
  std::size_t processed_ = 0;
  std::size_t sent_ = 0;
};

}  // namespace horo::collectives
