#include "horo/observe/rank_activity.h"

#include <unistd.h>

#include <algorithm>

#include "horo/observe/wall_clock.h"

namespace horo::observe {

RankActivity::RankActivity(const Topology& topology)
    : rank_(topology.rank), host_(topology.host_of[static_cast<std::size_t>(topology.node)]) {}

RankActivity::Registration RankActivity::add(Part part) {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t number = ++last_part_;
  parts_.emplace(number, std::move(part));
  return {this, [number](RankActivity* activity) {
            const std::scoped_lock remove_lock(activity->mutex_);
            activity->parts_.erase(number);
          }};
}

void RankActivity::fail(const std::string& text) {
  const std::scoped_lock lock(mutex_);
  if (failure_.empty()) failure_ = text;
}

RankSnapshot RankActivity::snapshot() {
  const std::scoped_lock lock(mutex_);
  RankSnapshot snapshot;
  snapshot.rank = rank_;
  snapshot.host = host_;
  snapshot.pid = getpid();
  snapshot.taken = snapshot.last_sign_of_life = wall_time_now();
  for (const auto& [number, part] : parts_) part(snapshot);
  std::stable_sort(
      snapshot.open.begin(), snapshot.open.end(),
      [](const OpenOperation& a, const OpenOperation& b) { return a.submitted < b.submitted; });
  if (snapshot.finished != finished_) {
    finished_ = snapshot.finished;
    last_finished_at_ = snapshot.taken;
  }
  if (!snapshot.last_finished.empty()) last_finished_ = snapshot.last_finished;
  snapshot.last_finished = last_finished_;
  snapshot.last_finished_at = last_finished_at_;
  snapshot.failure = failure_;
  return snapshot;
}

}  // namespace horo::observe
