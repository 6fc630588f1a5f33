#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "horo/observe/frame_socket.h"
#include "horo/observe/link_message.h"
#include "horo/observe/meeting_point.h"

namespace horo::observe {

/// A node's end of the watchdogs' talk between nodes: reports to the hub and hears its word. Tries
/// the hub's addresses in turn until one answers, and again when the connection is lost. Never
/// blocks. Used by one thread.
class LeaderClient {
 public:
  using Time = std::chrono::steady_clock::time_point;

  LeaderClient(const MeetingPoint& point, int node, int ranks_of_node);

  void exchange(const Report& report, Time now);

  /// Why the job ends, by the hub's word; empty: it does not.
  const std::string& end_reason() const { return end_reason_; }
  /// When the hub was last heard; nullopt: never.
  std::optional<Time> last_heard() const { return last_heard_; }
  /// When this began to look for the hub; nullopt: not yet.
  std::optional<Time> first_try() const { return first_try_; }
  bool has_hub_left() const { return has_hub_left_; }
  /// Whether each of the hub's addresses has been tried.
  bool has_tried_all() const { return next_address_ > addresses_.size(); }
  /// Whether the hub's last word was that some rank has asked for patience.
  bool is_paused() const { return is_paused_; }
  /// Whether by its last word it sees all ranks of the job.
  bool does_hub_see_all() const { return does_hub_see_all_; }
  /// Counts the hub's silence from `now` on.
  void start_anew(Time now);

 private:
  void try_next_address(Time now);
  void hear(Time now);

  MeetingPoint point_;
  std::vector<std::string> addresses_;
  int node_;
  std::size_t max_message_;
  std::size_t next_address_ = 0;
  std::optional<FrameSocket> socket_;
  Time tried_{};
  bool is_welcome_ = false;
  std::optional<Time> first_try_;
  std::optional<Time> last_heard_;
  std::string end_reason_;
  bool has_hub_left_ = false;
  bool is_paused_ = false;
  bool does_hub_see_all_ = false;
};

}  // namespace horo::observe
