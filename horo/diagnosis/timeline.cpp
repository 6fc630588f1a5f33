#include "horo/diagnosis/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"
#include "horo/base/text/printable.h"
#include "horo/diagnosis/trace_writer.h"

namespace horo::observe {
namespace {

// Lanes of a rank in the trace, in display order.
constexpr int kPhases = 0;
constexpr int kExchanges = 1;  // plus FlightEvent::lane
constexpr int kNegotiation = 1 << 17;
constexpr int kGradients = kNegotiation + 1;
constexpr std::string_view kOpen = " (open)";

bool is_span(const FlightEvent& event) {
  return event.kind == kPhaseKind || event.kind == kPauseKind;
}

// Returns the first known time of an event, or `otherwise` if no time is known.
WallTime first_time(const FlightEvent& event, WallTime otherwise) {
  for (const WallTime time : {event.submitted, event.agreed, event.started, event.ended})
    if (time != 0) return time;
  return otherwise;
}

WallTime earliest_time(std::span<const FlightLog> ranks) {
  WallTime earliest = std::numeric_limits<WallTime>::max();
  for (const FlightLog& log : ranks) {
    earliest = std::min(earliest, log.begun);
    for (const auto* events : {&log.finished_events, &log.open_events})
      for (const FlightEvent& event : *events)
        earliest = std::min(earliest, first_time(event, earliest));
  }
  return ranks.empty() ? 0 : earliest;
}

std::string details_of(const FlightEvent& event) {
  std::string details =
      fmt::format(R"("kind": {}, "bytes": {})", json_string(event.kind), event.bytes);
  if (!event.process_set.empty())
    details += fmt::format(R"(, "process set": {})", json_string(event.process_set));
  return details;
}

// Writes the events of one rank. Exchanges and phases of a lane usually nest. Negotiations and
// gradients may overlap, so RankTrace writes them as asynchronous events.
class RankTrace {
 public:
  RankTrace(const FlightLog& log, TraceWriter& writer) : log_(log), writer_(writer) {}

  void write() {
    writer_.name_process(log_.rank,
                         fmt::format("rank {} ({}, pid {})", log_.rank, log_.host, log_.pid));
    for (const FlightEvent& event : log_.finished_events) add(event, "");
    for (const FlightEvent& event : log_.open_events) add(event, kOpen);
    add_open_span(kPhaseKind, log_.phase, log_.phase_since);
    add_open_span(kPauseKind, log_.pause, log_.pause_since);
    for (const auto& [lane, name] : lanes_) writer_.name_lane(log_.rank, lane, name);
  }

 private:
  void add_open_span(const char* kind, const std::string& name, WallTime since) {
    if (name.empty()) return;
    FlightEvent event;
    event.kind = kind;
    event.name = name;
    event.started = since;
    add(event, kOpen);
  }

  void add(const FlightEvent& event, std::string_view suffix) {
    const WallTime last = std::max({log_.pulse, event.submitted, event.agreed, event.started});
    const WallTime end = event.ended != 0 ? event.ended : last;
    const std::string name =
        (event.kind == kWaitKind ? "wait for " : "") + event.name + std::string(suffix);
    const std::string details = details_of(event);
    const auto part = [&](int lane, const char* title, std::string_view category, WallTime from,
                          WallTime to, bool nests) {
      if (from == 0 || to == 0) return;
      lanes_.emplace(lane, title);
      const TraceWriter::Event written{log_.rank, lane, name, category, from, to, details};
      nests ? writer_.add_nested(written) : writer_.add_overlapping(written);
    };
    if (is_span(event)) return part(kPhases, "phases", event.kind, event.started, end, true);
    if (event.kind == kGradientKind) return;  // included in its bucket
    const bool is_bucket = event.kind == kBucketKind;
    const WallTime agreed = event.agreed != 0 ? event.agreed : end;
    part(is_bucket ? kGradients : kNegotiation, is_bucket ? "gradients" : "negotiation",
         is_bucket ? "gradients" : "negotiation", event.submitted, agreed, false);
    if (event.started != 0 && event.agreed != 0 && event.started > event.agreed)
      part(is_bucket ? kGradients : kNegotiation, is_bucket ? "gradients" : "negotiation", "queue",
           event.agreed, event.started, false);
    part(kExchanges + event.lane, lane_title(event).c_str(), event.kind, event.started, end, true);
  }

  static std::string lane_title(const FlightEvent& event) {
    if (event.lane == kProgramLane) return "program (exposed)";
    if (event.lane == kCoordinatorLane) return "named operations";
    return fmt::format("plan {}", event.name.substr(0, event.name.rfind('/')));
  }

  const FlightLog& log_;
  TraceWriter& writer_;
  std::map<int, std::string> lanes_;
};

}  // namespace

std::string timeline_json(std::span<const FlightLog> ranks) {
  TraceWriter writer(earliest_time(ranks));
  for (const FlightLog& log : ranks) RankTrace(log, writer).write();
  return writer.finish();
}

}  // namespace horo::observe
