#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/point_to_point.h"

namespace horo::collectives {

/// Where the segments of a flow come from and go to. Segments are numbered from 0 in each
/// direction; both ends of a connection agree on the size of each, and empty ones are not sent.
class FlowEnds {
 public:
  virtual ~FlowEnds() = default;
  /// The bytes of the segment to send: in place, or gathered into `slot`. They stay valid until
  /// sent.
  virtual std::span<const std::byte> outgoing(std::size_t send, std::span<std::byte> slot) = 0;
  /// Where to receive a segment: in place, or the beginning of `slot`.
  virtual std::span<std::byte> incoming(std::size_t receive, std::span<std::byte> slot) = 0;
  /// Called once for each segment, in order, with the span that incoming() returned.
  virtual void arrived(std::size_t receive, std::span<const std::byte> bytes) = 0;
  /// Whether the memory that incoming() will return may be written, sends [0, sends_done) having
  /// ended.
  virtual bool may_receive(std::size_t receive, std::size_t sends_done) const;
  /// The same for the memory that arrived() writes.
  virtual bool may_take(std::size_t receive, std::size_t sends_done) const;
};

/// A stream of segments from one peer and to another: several receives are posted ahead, arrived
/// segments are taken while the next are on their way, and sends go out as soon as what they depend
/// on has been taken. Nothing blocks anything else, so a ring of such flows cannot stand still.
/// Keeps its staging memory (8 slots) between runs. Used by one thread.
class SegmentFlow {
 public:
  /// Segments in flight in each direction.
  static constexpr std::size_t kWindow = 4;

  struct Plan {
    int from = 0;
    int to = 0;
    std::size_t receives = 0;  ///< segments to receive
    std::size_t sends = 0;     ///< segments to send
    std::size_t lead = 0;      ///< send i may go once i + 1 - lead receives have been taken
    std::size_t slot_bytes = 0;
    std::string_view what;  ///< the collective, for error texts
  };

  /// `rank_names` are for error texts: one for each rank of `peers`.
  SegmentFlow(PointToPoint& peers, const std::vector<std::string>& rank_names)
      : peers_(peers), rank_names_(rank_names) {}

  void run(const Plan& plan, FlowEnds& ends) {
    start(plan, ends);
    finish();
  }

  /// The same in steps, for a rank that does something else meanwhile: start(), progress() now and
  /// then, finish(). `ends` lives until the end.
  void start(const Plan& plan, FlowEnds& ends);
  /// Does what can be done without waiting. Returns whether that was anything.
  bool progress();
  /// Waits for the rest.
  void finish();

 private:
  struct InFlight {
    PointToPoint::Ticket ticket;
    std::span<std::byte> bytes;  // receives only
  };

  bool is_finished() const { return taken_ >= plan_.receives && sent_ >= plan_.sends; }
  bool post_receives();
  bool take_arrivals();
  bool post_sends();
  bool reap_sends();
  bool is_done(const InFlight& transfer);
  std::span<std::byte> slot(std::size_t index);
  std::string describe_wait() const;

  PointToPoint& peers_;
  const std::vector<std::string>& rank_names_;
  std::vector<std::byte> staging_;
  // The run under way:
  Plan plan_;
  FlowEnds* ends_ = nullptr;
  std::deque<InFlight> receives_;  // segments [taken_, taken_ + receives_.size())
  std::deque<InFlight> sends_;     // segments [sent_, sent_ + sends_.size())
  std::size_t taken_ = 0;
  std::size_t sent_ = 0;
};

}  // namespace horo::collectives
