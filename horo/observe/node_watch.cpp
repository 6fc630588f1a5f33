#include "horo/observe/node_watch.h"

#include "horo/observe/wall_clock.h"

namespace horo::observe {

NodeWatch::NodeWatch(const PulseBoard& board, std::chrono::nanoseconds silent_after)
    : board_(board),
      silent_after_(silent_after),
      machine_(this_machine()),
      heartbeats_(static_cast<std::size_t>(board.ranks())) {}

Liveness NodeWatch::liveness_of(int local_rank, const Pulse& pulse, Time now) {
  Heartbeat& heartbeat = heartbeats_[static_cast<std::size_t>(local_rank)];
  if (heartbeat.advanced == Time{} || pulse.heartbeat != heartbeat.count)
    heartbeat = {pulse.heartbeat, now, wall_time_now()};
  Sighting sighting;
  sighting.has_left = pulse.has_left;
  sighting.is_visible = machine_ != 0 && pulse.machine == machine_;
  if (sighting.is_visible && !sighting.has_left) sighting.process = read_process_stat(pulse.pid);
  sighting.start_time = pulse.start_time;
  sighting.silence = now - heartbeat.advanced;
  return judge_liveness(sighting, silent_after_);
}

bool NodeWatch::is_speaker(Time now) {
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
  std::vector<RankSnapshot> ranks;
  for (int local_rank = 0; local_rank < board_.ranks(); ++local_rank) {
    const Pulse pulse = board_.read(local_rank);
    if (pulse.pid == 0 || !pulse.snapshot) continue;
    RankSnapshot snapshot = *pulse.snapshot;
    snapshot.liveness = liveness_of(local_rank, pulse, now);
    snapshot.last_sign_of_life = heartbeats_[static_cast<std::size_t>(local_rank)].advanced_at;
    ranks.push_back(std::move(snapshot));
  }
  return ranks;
}

}  // namespace horo::observe
