#include "launcher/job/job_monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "horo/diagnosis/missing_operations.h"

namespace horo {
namespace {

// Whether the runners have reported the ends of all ranks, and at least one rank has failed. A rank
// on another host may leave processes that are not visible here. If a rank has failed, mpirun ends
// these processes too.
bool has_failed_on_all_ranks(std::span<const RankEnd> rank_ends) {
  std::set<int> ranks;
  for (const RankEnd& end : rank_ends) ranks.insert(end.rank);
  return std::ranges::any_of(rank_ends, [](const RankEnd& end) { return end.wait_status != 0; }) &&
         rank_ends.front().size > 0 && static_cast<int>(ranks.size()) >= rank_ends.front().size;
}

}  // namespace

JobMonitor::JobMonitor(const MonitorTimes& times) : times_(times) {}

std::chrono::milliseconds JobMonitor::time_to_next_look() const {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_look_ - Clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

// At first, the search for processes runs often, because a rank that ends early must be found
// before it ends. A decision ends the job only if it is the same several times in a row, because
// mpirun itself needs time to end a job.
std::optional<ForcedEnd> JobMonitor::look(const JobState& state) {
  const auto now = Clock::now();
  if (now < next_look_) return std::nullopt;
  ranks_.update();
  const bool is_searching = now < start_ + times_.search_phase && !ranks_.all_are_found();
  next_look_ = now + (is_searching ? times_.search_period : times_.period);
  if (now < next_judgement_) return std::nullopt;
  next_judgement_ = now + times_.period;
  auto end = judge(state);
  const std::string text = end ? end->text : "";
  equal_judgements_ = text == latest_ ? equal_judgements_ + 1 : 1;
  latest_ = text;
  if (!end) return std::nullopt;
  // During an abort, mpirun waits for ranks that end slowly. If no rank was found on this host, all
  // ranks may run on other hosts, where they are not visible.
  const bool is_certain = end->cause != ForcedEnd::Cause::kAbortStuck && ranks_.job().has_value();
  const int needed = is_certain ? times_.judgements : times_.judgements_if_uncertain;
  return equal_judgements_ < needed ? std::nullopt : end;
}

std::optional<ForcedEnd> JobMonitor::judge(const JobState& state) const {
  const bool no_rank_runs = !ranks_.any_runs();
  const bool are_all_known = ranks_.all_are_here() || has_failed_on_all_ranks(state.rank_ends);
  if (no_rank_runs && are_all_known && !state.output_is_blocked && !state.has_pending_errors)
    return ForcedEnd{ForcedEnd::Cause::kNoRankRuns,
                     "no rank of the job runs any more, but mpirun did not end"};
  // A job on one host has no remote daemon that may be unreachable. If no rank was found on this
  // host, the number of hosts is unknown.
  const bool is_one_host = ranks_.job() && ranks_.job()->nodes == 1;
  if (state.is_aborting && !state.output_is_blocked && !is_one_host)
    return ForcedEnd{ForcedEnd::Cause::kAbortStuck,
                     "mpirun aborted the job but did not end: it may not reach a host"};
  if (no_rank_runs) return std::nullopt;
  if (auto text = missing_rank(state.rank_ends))
    return ForcedEnd{ForcedEnd::Cause::kRankMissing, *text};
  return std::nullopt;
}

// A rank that exits with code 0 before MPI_Init does not end the job. mpirun waits for the other
// ranks, and they wait in MPI_Init. The reports of the runners also cover ranks on other hosts.
std::optional<std::string> JobMonitor::missing_rank(std::span<const RankEnd> rank_ends) const {
  std::map<int, pid_t> ended = ranks_.ended();
  for (const RankEnd& end : rank_ends) ended[end.rank] = end.pid;
  if (ended.empty()) return std::nullopt;
  const std::vector<int> waiting = ranks_.in_init();
  if (waiting.empty()) return std::nullopt;
  const auto& [rank, pid] = *ended.begin();
  std::string missing = fmt::format("rank {} (pid {})", rank, pid);
  if (ended.size() > 1) missing += fmt::format(" (and {} more)", ended.size() - 1);
  return fmt::format(
      "{} exited without completing horo::init(), in which {} wait{}; every rank must call it",
      missing, observe::format_ranks(waiting), waiting.size() == 1 ? "s" : "");
}

}  // namespace horo
