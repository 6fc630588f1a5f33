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
  /// Returns the bytes of a segment to send, either in place or gathered into `slot`. The bytes
  /// must stay unchanged until the send is done.
  virtual std::span<const std::byte> outgoing(std::size_t send, std::span<std::byte> slot) = 0;
  /// Returns the memory to receive a segment into. This is the destination itself or the beginning
  /// of `slot`.
  virtual std::span<std::byte> incoming(std::size_t receive, std::span<std::byte> slot) = 0;
  /// Called once for each nonempty segment, in order, with the span that incoming() returned.
  virtual void process(std::size_t receive, std::span<const std::byte> bytes) = 0;
  /// Whether the memory that incoming() will return may be written once sends [0, sends_done) are
  /// done.
  virtual bool may_receive(std::size_t receive, std::size_t sends_done) const;
  /// Whether the memory that process() will write may be written once sends [0, sends_done) are
  /// done.
  virtual bool may_process(std::size_t receive, std::size_t sends_done) const;
};

/// A stream of segments from one peer and to another. Several receives are posted ahead. Received
/// segments are processed while the next segments are in flight. A send is posted when the segments
/// that it depends on have been processed and fewer than kWindow sends are in flight. A ring of
/// such flows cannot deadlock (see progress()). Keeps its staging memory (8 slots) between runs.
/// Used by one thread.
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
    std::string_view what;  ///< the collective, for error texts
  };

  /// `rank_names` has one name for error texts for each rank of `peers`. Both must outlive this
  /// object.
  SegmentFlow(PointToPoint& peers, const std::vector<std::string>& rank_names)
      : peers_(peers), rank_names_(rank_names) {}

  void run(const Plan& plan, FlowEnds& ends) {
    start(plan, ends);
    finish();
  }

  /// Starts a flow that the caller advances between other work. The caller calls start(), then
  /// progress() any number of times, then finish(). `ends` must exist until finish() has returned.
  void start(const Plan& plan, FlowEnds& ends);
  /// Advances the flow without waiting. Returns whether the flow has advanced.
  bool progress();
  /// Waits until the flow is complete.
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
