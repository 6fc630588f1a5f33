#include "horo/observe/node_watch.h"

#include <utility>

#include "horo/base/error.h"
#include "horo/observe/wall_clock.h"

namespace horo::observe {

NodeWatch::NodeWatch(const PulseBoard& board, std::chrono::nanoseconds silent_after,
                     std::vector<RankSnapshot> ranks)
    : board_(board),
      silent_after_(silent_after),
      machine_(this_machine()),
      heartbeats_(static_cast<std::size_t>(board.ranks())),
      latest_(std::move(ranks)),
      has_written_(latest_.size(), false) {
  HORO_CHECK(latest_.size() == heartbeats_.size(), "one for each rank of the node");
}

// Of all ranks in every round, so that who stands in for another knows how old they are.
void NodeWatch::note_heartbeats(Time now) {
  for (int local_rank = 0; local_rank < board_.ranks(); ++local_rank) {
    Heartbeat& known = heartbeats_[static_cast<std::size_t>(local_rank)];
    const std::uint64_t count = board_.heartbeat(local_rank);
    if (known.advanced == Time{} || count != known.count) known = {count, now, wall_time_now()};
  }
}

Liveness NodeWatch::liveness_of(int local_rank, const Pulse& pulse, Time now) const {
  Sighting sighting;
  sighting.has_left = pulse.has_left;
  if (local_rank == board_.local_rank())
    return sighting.has_left ? Liveness::kEnded : Liveness::kRunning;
  if (machine_ != 0 && pulse.machine == machine_ && !sighting.has_left) {
    const auto [is_known, stat] = look_for_process(pulse.pid);
    sighting.is_visible = is_known;
    sighting.process = stat;
  }
  sighting.start_time = pulse.start_time;
  sighting.silence = now - heartbeats_[static_cast<std::size_t>(local_rank)].advanced;
  return judge_liveness(sighting, silent_after_);
}

bool NodeWatch::is_speaker(Time now) {
  note_heartbeats(now);
  for (int local_rank = 0; local_rank < board_.local_rank(); ++local_rank) {
    const Pulse pulse = board_.read(local_rank);
    if (pulse.pid != 0 && liveness_of(local_rank, pulse, now) == Liveness::kRunning) return false;
  }
  return true;
}

void NodeWatch::start_anew(Time now) {
  for (Heartbeat& heartbeat : heartbeats_) heartbeat.advanced = now;
}

std::vector<RankSnapshot> NodeWatch::look(Time now) {
  note_heartbeats(now);
  std::vector<RankSnapshot> ranks;
  for (int local_rank = 0; local_rank < board_.ranks(); ++local_rank) {
    const Pulse pulse = board_.read(local_rank);
    if (pulse.pid == 0) continue;
    const auto place = static_cast<std::size_t>(local_rank);
    RankSnapshot& latest = latest_[place];
    if (pulse.snapshot) {
      latest = *pulse.snapshot;
      has_written_[place] = true;
    }
    if (!has_written_[place]) latest.pid = pulse.pid;
    // A rank that waits for the others to shut down has left by its own word, as long as it lives.
    const bool is_leaving = pulse.snapshot && pulse.snapshot->liveness == Liveness::kEnded;
    latest.liveness = liveness_of(local_rank, pulse, now);
    if (is_leaving && latest.liveness == Liveness::kRunning) latest.liveness = Liveness::kEnded;
    latest.last_sign_of_life = heartbeats_[place].advanced_at;
    if (has_written_[place] || latest.liveness != Liveness::kRunning) ranks.push_back(latest);
  }
  return ranks;
}

}  // namespace horo::observe
