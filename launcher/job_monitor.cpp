#include "launcher/job_monitor.h"

#include <fmt/format.h>

#include <algorithm>

#include "horo/observe/missing_operations.h"

namespace horo {

JobMonitor::JobMonitor(const MonitorTimes& times) : times_(times) {}

std::chrono::milliseconds JobMonitor::time_to_next_look() const {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_look_ - Clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

std::optional<ForcedEnd> JobMonitor::look(const MpirunState& mpirun) {
  const auto now = Clock::now();
  const bool has_ended = ranks_.ends().take();
  if (!has_ended && now < next_look_) return std::nullopt;
  ranks_.update();
  note_first_end();
  const bool is_searching = now < start_ + times_.search_phase && !ranks_.all_are_found();
  next_look_ = now + (is_searching ? times_.search_period : times_.period);
  if (now < next_judgement_) return std::nullopt;
  next_judgement_ = now + times_.period;
  auto end = judge(mpirun);
  const std::string text = end ? end->text : "";
  equal_judgements_ = text == latest_ ? equal_judgements_ + 1 : 1;
  latest_ = text;
  if (!end) return end;
  // A rank that was never seen may be one that a busy machine has not started yet. An abort may
  // wait for a rank that ends slowly.
  const bool is_certain = end->cause == ForcedEnd::Cause::kNoRankRuns ||
                          (end->cause == ForcedEnd::Cause::kRankMissing && !ranks_.ended().empty());
  if (equal_judgements_ < (is_certain ? times_.judgements : times_.judgements_if_uncertain))
    end.reset();
  return end;
}

std::optional<ForcedEnd> JobMonitor::judge(const MpirunState& mpirun) const {
  if (!ranks_.job()) return std::nullopt;
  const bool no_rank_runs = !ranks_.any_runs();
  if (no_rank_runs && ranks_.all_are_here() && !mpirun.output_is_blocked &&
      !mpirun.has_pending_errors)
    return ForcedEnd{ForcedEnd::Cause::kNoRankRuns,
                     "no rank of the job runs any more, but mpirun did not end"};
  // On one host there is no daemon that mpirun may not reach.
  if (mpirun.is_aborting && !mpirun.output_is_blocked && ranks_.job()->nodes != 1)
    return ForcedEnd{ForcedEnd::Cause::kAbortStuck,
                     "mpirun aborted the job but did not end: it may not reach a host"};
  if (no_rank_runs) return std::nullopt;
  if (auto text = missing_rank()) return ForcedEnd{ForcedEnd::Cause::kRankMissing, *text};
  return std::nullopt;
}

// Ranks are looked at one after the other, and end meanwhile. If two looks in a row find the same
// ones ended, all others ran after those had ended.
void JobMonitor::note_first_end() {
  if (has_noted_first_end_) {
    // One that had not been seen then, and runs now, is not the first.
    std::erase_if(ended_first_.ranks, [this](int rank) {
      return unseen_at_first_end_.contains(rank) && ranks_.was_seen(rank);
    });
    return;
  }
  std::map<int, pid_t> ended = ranks_.ended();
  if (ended.empty()) return;
  for (auto again = ranks_.ended(); again.size() != ended.size(); again = ranks_.ended())
    ended = again;
  has_noted_first_end_ = true;
  ranks_.ends().clear();
  ended_first_.is_of_this_host = ranks_.job()->nodes != 1;
  // Any rank whose number is not known may have ended before these.
  const bool is_uncertain =
      ranks_.has_unnumbered() || (ended_first_.is_of_this_host && !ranks_.all_are_found());
  if (!ranks_.any_runs() || is_uncertain) return;
  const std::vector<int> never_seen = ranks_.never_seen();
  for (const auto& [rank, pid] : ended) ended_first_.ranks.push_back(rank);
  unseen_at_first_end_.insert(never_seen.begin(), never_seen.end());
  ended_first_.ranks.insert(ended_first_.ranks.end(), never_seen.begin(), never_seen.end());
  std::ranges::sort(ended_first_.ranks);
}

std::optional<std::string> JobMonitor::missing_rank() const {
  const std::map<int, pid_t> ended = ranks_.ended();
  std::vector<int> never_seen;
  if (!ranks_.has_unnumbered()) never_seen = ranks_.never_seen();
  if (ended.empty() && never_seen.empty()) return std::nullopt;
  const std::vector<int> waiting = ranks_.in_init();
  if (waiting.empty()) return std::nullopt;
  std::string missing;
  if (!ended.empty()) {
    const auto& [rank, pid] = *ended.begin();
    missing = fmt::format("rank {} (pid {})", rank, pid);
  } else {
    missing = fmt::format("rank {}", never_seen.front());
  }
  const std::size_t others = ended.size() + never_seen.size() - 1;
  if (others > 0) missing += fmt::format(" (and {} more)", others);
  return fmt::format(
      "{} exited without completing horo::init(), in which {} wait{}; every rank must call it",
      missing, observe::name_ranks(waiting), waiting.size() == 1 ? "s" : "");
}

}  // namespace horo
