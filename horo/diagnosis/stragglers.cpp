#include "horo/diagnosis/stragglers.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "horo/base/text/quantity.h"
#include "horo/diagnosis/missing_operations.h"

namespace horo::observe {

namespace {

std::int64_t overlap(const TimeSpan& a, const TimeSpan& b) {
  return std::max<std::int64_t>(0, std::min(a.end, b.end) - std::max(a.begin, b.begin));
}

std::int64_t overlap(const TimeSpan& time, std::span<const TimeSpan> spans) {
  std::int64_t sum = 0;
  for (const TimeSpan& span : spans) sum += overlap(time, span);
  return sum;
}

struct PhaseSpan : TimeSpan {
  const std::string* name = nullptr;
};

// Returns the phases of a rank. An enclosing phase comes before the phases inside it.
std::vector<PhaseSpan> phases_of(const FlightLog& rank) {
  std::vector<PhaseSpan> phases;
  for (const FlightEvent& event : rank.finished_events)
    if (event.kind == kPhaseKind) phases.push_back({{event.started, event.ended}, &event.name});
  if (!rank.phase.empty())
    phases.push_back({{rank.phase_since, std::numeric_limits<WallTime>::max()}, &rank.phase});
  std::ranges::sort(phases, {}, [](const PhaseSpan& p) { return std::tuple(p.begin, -p.end); });
  return phases;
}

}  // namespace

std::vector<TimeSpan> merge_spans(std::vector<TimeSpan> spans) {
  std::ranges::sort(spans, {}, &TimeSpan::begin);
  std::vector<TimeSpan> united;
  for (const TimeSpan& span : spans)
    if (united.empty() || united.back().end < span.begin)
      united.push_back(span);
    else
      united.back().end = std::max(united.back().end, span.end);
  return united;
}

std::int64_t length_of(std::span<const TimeSpan> spans) {
  std::int64_t sum = 0;
  for (const TimeSpan& span : spans) sum += span.end - span.begin;
  return sum;
}

// The time of a phase is added to this phase and subtracted from the enclosing phase, so time in
// nested phases belongs only to the innermost phase.
std::map<std::string, std::int64_t> phase_times(const FlightLog& rank,
                                                std::span<const TimeSpan> spans) {
  std::map<std::string, std::int64_t> times;
  std::vector<PhaseSpan> outer;
  times[""] = length_of(spans);
  for (const PhaseSpan& phase : phases_of(rank)) {
    while (!outer.empty() && outer.back().end <= phase.begin) outer.pop_back();
    const std::int64_t time = overlap(phase, spans);
    times[*phase.name] += time;
    times[outer.empty() ? "" : *outer.back().name] -= time;
    outer.push_back(phase);
  }
  return times;
}

namespace {

constexpr std::size_t kMaxReported = 3;
constexpr double kReportThreshold = 0.01;  // of the span
constexpr std::size_t kMostRows = 16;
constexpr int kSlowest = 4;  // rows for a large job, in addition to the fastest and the median rank

using Operations = std::vector<const FlightEvent*>;  // sorted by start

bool is_operation(const FlightEvent& event) {
  return event.kind != kPhaseKind && event.kind != kPauseKind && event.kind != kWaitKind &&
         event.kind != kShutdownKind && event.started != 0 && event.ended != 0;
}

WallTime arrival_of(const FlightEvent& event) {
  if (event.kind == kBucketKind) return event.agreed != 0 ? event.agreed : event.started;
  return event.submitted != 0 ? event.submitted : event.started;
}

std::map<std::string_view, Operations> operations_of(const FlightLog& log) {
  std::map<std::string_view, Operations> by_name;
  for (const FlightEvent& event : log.finished_events)
    if (is_operation(event)) by_name[event.name].push_back(&event);
  for (auto& [name, operations] : by_name) std::ranges::sort(operations, {}, &FlightEvent::started);
  return by_name;
}

// Returns the first operation in `operations` that overlaps `event` in time, or null. Operations
// repeat under one name, so only the overlap in time shows which records of different ranks belong
// together.
const FlightEvent* same_as(const FlightEvent& event, const Operations& operations) {
  const auto at = std::ranges::partition_point(
      operations, [&](const FlightEvent* other) { return other->ended < event.started; });
  if (at == operations.end() || (*at)->started > event.ended) return nullptr;
  return *at;
}

double percent_of(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

// Returns the ranks that the table shows, sorted by number.
std::vector<RankTimes> ranks_of_table(const StragglerReport& report) {
  std::vector<RankTimes> ranks = report.ranks;
  if (ranks.size() > kMostRows) {
    std::ranges::stable_sort(ranks, std::greater<>(), &RankTimes::waited);
    std::vector<RankTimes> chosen = {ranks.front(), ranks[ranks.size() / 2]};
    chosen.insert(chosen.end(), ranks.end() - kSlowest, ranks.end());
    ranks = std::move(chosen);
  }
  std::ranges::sort(ranks, {}, &RankTimes::rank);
  return ranks;
}

std::string table_of(const StragglerReport& report) {
  const std::vector<RankTimes> ranks = ranks_of_table(report);
  std::size_t host_width = 4;
  for (const RankTimes& rank : ranks) host_width = std::max(host_width, rank.host.size());
  std::string text;
  if (ranks.size() < report.ranks.size())
    text +=
        fmt::format("of {} ranks, by their own time: the quickest, the median, the slowest {}\n",
                    report.ranks.size(), kSlowest);
  text += fmt::format("rank  {:<{}}  own time         waiting          came last\n", "host",
                      host_width);
  for (const RankTimes& rank : ranks) {
    const std::int64_t own = report.span - rank.waited;
    text += fmt::format("{:<4}  {:<{}}  {:<8} {:>3.0f} %   {:<8} {:>3.0f} %   {}\n", rank.rank,
                        rank.host, host_width, format_nanoseconds(own),
                        percent_of(own, report.span), format_nanoseconds(rank.waited),
                        percent_of(rank.waited, report.span), rank.last);
  }
  return text;
}

}  // namespace

// A rank delays the others from the arrival of the second to last rank until its own arrival.
// Delays of several operations may overlap in time, so overlapping delays are merged before the sum
// is computed.
StragglerReport find_stragglers(std::span<const FlightLog> ranks) {
  StragglerReport report;
  for (const FlightLog& log : ranks) report.ranks.push_back({log.rank, log.host, 0, 0, 0, {}});
  if (ranks.size() < 2) return report;
  std::vector<std::map<std::string_view, Operations>> operations;
  for (const FlightLog& log : ranks) operations.push_back(operations_of(log));
  std::vector<std::vector<TimeSpan>> delays(ranks.size()), waits(ranks.size());
  WallTime begin = std::numeric_limits<WallTime>::max(), end = 0;

  for (const auto& [name, of_first] : operations[0])
    for (const FlightEvent* first : of_first) {
      std::vector<WallTime> arrivals;
      for (const auto& of_rank : operations) {
        const auto found = of_rank.find(name);
        const FlightEvent* own = found == of_rank.end() ? nullptr : same_as(*first, found->second);
        if (own == nullptr) break;
        arrivals.push_back(arrival_of(*own));
      }
      // Only operations that all ranks have recorded are compared.
      if (arrivals.size() < ranks.size()) continue;
      ++report.operations;
      begin = std::min(begin, *std::ranges::min_element(arrivals));
      end = std::max(end, first->ended);
      const auto last = std::ranges::max_element(arrivals);
      const auto at = static_cast<std::size_t>(last - arrivals.begin());
      WallTime second = std::numeric_limits<WallTime>::min();
      for (std::size_t r = 0; r < arrivals.size(); ++r) {
        waits[r].push_back({arrivals[r], *last});
        if (r != at) second = std::max(second, arrivals[r]);
      }
      ++report.ranks[at].last;
      delays[at].push_back({second, *last});
    }

  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::vector<TimeSpan> delay = merge_spans(std::move(delays[r]));
    report.ranks[r].delayed = length_of(delay);
    report.ranks[r].waited = length_of(merge_spans(std::move(waits[r])));
    const auto phases = phase_times(ranks[r], delay);
    report.ranks[r].phase =
        std::ranges::max_element(phases, {}, [](const auto& p) { return p.second; })->first;
  }
  report.span = report.operations == 0 ? 0 : end - begin;
  std::ranges::stable_sort(report.ranks, std::greater<>(), &RankTimes::delayed);
  return report;
}

std::string describe(const StragglerReport& report) {
  if (report.operations == 0) return "no operation that all ranks took part in is recorded\n";
  std::string text = fmt::format("{} over {}\n", format_count(report.operations, "operation"),
                                 format_nanoseconds(report.span)) +
                     table_of(report);
  std::size_t named = 0;
  for (const RankTimes& rank : report.ranks) {
    if (named == kMaxReported ||
        static_cast<double>(rank.delayed) < kReportThreshold * static_cast<double>(report.span))
      break;
    ++named;
    text += fmt::format(
        "rank {} ({}) came last to {} and delayed the others by {}, {:.0f} % of the time{}; "
        "it waited {} itself\n",
        rank.rank, rank.host, rank.last, format_nanoseconds(rank.delayed),
        percent_of(rank.delayed, report.span),
        rank.phase.empty() ? "" : fmt::format(", most of it in phase '{}'", rank.phase),
        format_nanoseconds(rank.waited));
  }
  if (named == 0) text += "no rank delayed the others by more than 1 % of the time\n";
  return text;
}

}  // namespace horo::observe
