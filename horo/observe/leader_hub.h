#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "horo/observe/frame_socket.h"
#include "horo/observe/link_message.h"
#include "horo/observe/meeting_point.h"

namespace horo::observe {

/// Rank 0's end of the watchdogs' talk between nodes: hears from the speaker of each other node and
/// gives all of them the same word. Never blocks. Used by one thread.
class LeaderHub {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// What was last heard of a node.
  struct News {
    std::optional<Report> report;  ///< times by the clock of this host; none: nothing yet
    Time heard{};
    bool is_connected = false;
  };

  /// Listens, on the loopback only if all ranks are on this host. `nodes`: of the job. If it cannot
  /// listen, is_open() is false and nobody comes.
  LeaderHub(int nodes, int ranks_of_largest_node, bool is_one_host);

  bool is_open() const { return point_.port != 0; }
  const MeetingPoint& point() const { return point_; }
  /// Takes in who has come and what has been sent, and gives `word` to every node.
  void exchange(const Word& word, Time now, WallTime wall_now);
  /// news()[n]: of node n. Nothing is ever heard of node 0, which is the hub's own.
  const std::vector<News>& news() const { return news_; }
  /// Counts the silence of all nodes from `now` on.
  void start_anew(Time now);

 private:
  struct Guest {
    FrameSocket socket;
    Time came;
    int node = -1;  // not yet said
  };
  void accept_guests(Time now);
  void drop_oldest_strangers(std::size_t max_strangers);
  void hear(Guest& guest, Time now, WallTime wall_now);
  void take_in(Guest& guest, const LinkMessage& message, Time now, WallTime wall_now);

  FileDescriptor listener_;
  MeetingPoint point_;
  std::size_t max_message_;
  std::vector<News> news_;
  std::vector<std::unique_ptr<Guest>> guests_;
};

}  // namespace horo::observe
