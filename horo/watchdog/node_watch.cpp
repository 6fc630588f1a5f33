#include "horo/watchdog/node_watch.h"

#include <utility>

#include "horo/base/error.h"
#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {

namespace {

// A zombie whose last heartbeat is newer than this may be a process whose main thread has ended
// before its other threads.
constexpr auto kFreshHeartbeat = std::chrono::seconds(2);
// A rank whose last heartbeat is newer than this counts as alive, even if its process does not
// exist. The value is twice the longest heartbeat interval.
constexpr auto kLastHeartbeat = std::chrono::seconds(1);

Liveness liveness_without_process(std::chrono::nanoseconds silence) {
  return silence > kLastHeartbeat ? Liveness::kDead : Liveness::kRunning;
}

}  // namespace

// A process that gets no CPU time sends no heartbeats but is alive. Therefore the limit is ten
// times as long if the process exists. The states are those of /proc/PID/stat: X dead, Z zombie, T
// stopped by a signal, t by a debugger.
Liveness judge_liveness(const ProcessObservation& observation,
                        std::chrono::nanoseconds silent_after) {
  if (observation.has_left) return Liveness::kEnded;
  if (!observation.is_visible)
    return observation.silence > silent_after ? Liveness::kSilent : Liveness::kRunning;
  // The pid belongs to no process or to another process now, so the rank's process has ended.
  if (!observation.process || observation.process->start_time != observation.start_time)
    return liveness_without_process(observation.silence);
  switch (observation.process->state) {
    case 'X':
    case 'x':
      return liveness_without_process(observation.silence);
    case 'Z':
      return observation.silence > kFreshHeartbeat ? Liveness::kDead : Liveness::kRunning;
    case 'T':
    case 't':
      return Liveness::kStopped;
    default:
      return observation.silence > 10 * silent_after ? Liveness::kSilent : Liveness::kRunning;
  }
}

NodeWatch::NodeWatch(const HeartbeatTable& table, std::chrono::nanoseconds silent_after,
                     std::vector<RankSnapshot> ranks)
    : table_(table),
      silent_after_(silent_after),
      machine_(machine_id()),
      heartbeats_(static_cast<std::size_t>(table.ranks())),
      latest_(std::move(ranks)),
      has_snapshot_(latest_.size(), false) {
  HORO_CHECK(latest_.size() == heartbeats_.size(),
             "node watch: one snapshot per rank of the node is required");
}

// Also called in rounds in which this rank is not the leader, so that heartbeats_ is current when
// it becomes the leader.
void NodeWatch::update_heartbeats(Time now) {
  for (int local_rank = 0; local_rank < table_.ranks(); ++local_rank) {
    Heartbeat& known = heartbeats_[static_cast<std::size_t>(local_rank)];
    const std::uint64_t count = table_.heartbeat(local_rank);
    if (known.advanced == Time{} || count != known.count) known = {count, now, wall_time_now()};
  }
}

Liveness NodeWatch::liveness_of(int local_rank, const HeartbeatEntry& entry, Time now) const {
  ProcessObservation observation;
  observation.has_left = entry.has_left;
  if (local_rank == table_.local_rank())
    return observation.has_left ? Liveness::kEnded : Liveness::kRunning;
  if (machine_ != 0 && entry.machine == machine_ && !observation.has_left) {
    const auto [is_known, stat] = look_up_process(entry.pid);
    observation.is_visible = is_known;
    observation.process = stat;
  }
  observation.start_time = entry.start_time;
  observation.silence = now - heartbeats_[static_cast<std::size_t>(local_rank)].advanced;
  return judge_liveness(observation, silent_after_);
}

// Each rank decides without messages. For a short time, the decisions of the ranks may differ, so
// that a node has two leaders or none.
bool NodeWatch::is_leader(Time now) {
  update_heartbeats(now);
  for (int local_rank = 0; local_rank < table_.local_rank(); ++local_rank) {
    const HeartbeatEntry entry = table_.read(local_rank);
    if (entry.pid != 0 && liveness_of(local_rank, entry, now) == Liveness::kRunning) return false;
  }
  return true;
}

void NodeWatch::restart_timers(Time now) {
  for (Heartbeat& heartbeat : heartbeats_) heartbeat.advanced = now;
}

// Keeps the last readable snapshot of each rank, because a rank that was stopped or killed during a
// write leaves an unreadable snapshot. `last_sign_of_life` is the time at which this process last
// saw the heartbeat advance.
std::vector<RankSnapshot> NodeWatch::snapshots(Time now) {
  update_heartbeats(now);
  std::vector<RankSnapshot> ranks;
  for (int local_rank = 0; local_rank < table_.ranks(); ++local_rank) {
    const HeartbeatEntry entry = table_.read(local_rank);
    if (entry.pid == 0) continue;
    const auto index = static_cast<std::size_t>(local_rank);
    RankSnapshot& latest = latest_[index];
    if (entry.snapshot) {
      latest = *entry.snapshot;
      has_snapshot_[index] = true;
    }
    if (!has_snapshot_[index]) latest.pid = entry.pid;
    // A rank that waits in its shutdown counts as ended, unless its process is dead, stopped or
    // silent.
    const bool is_leaving = entry.snapshot && entry.snapshot->liveness == Liveness::kEnded;
    latest.liveness = liveness_of(local_rank, entry, now);
    if (is_leaving && latest.liveness == Liveness::kRunning) latest.liveness = Liveness::kEnded;
    latest.last_sign_of_life = heartbeats_[index].advanced_at;
    if (has_snapshot_[index] || latest.liveness != Liveness::kRunning) ranks.push_back(latest);
  }
  return ranks;
}

}  // namespace horo::observe
