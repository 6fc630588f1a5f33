#include "horo/metrics/step_line.h"

#include <fmt/format.h>

#include <iterator>

#include "horo/base/text/printable.h"

namespace horo::metrics {
namespace {

// Writes the time with a resolution of 1 ns and without an exponent.
void add_seconds(std::string& line, const char* name, std::int64_t time) {
  fmt::format_to(std::back_inserter(line), R"(, "{}": {:.9f})", name, seconds_of(time));
}

// Writes seconds and microseconds as two integers, because a double cannot represent ns since 1970
// exactly.
void add_wall_time(std::string& line, const char* name, std::int64_t time) {
  fmt::format_to(std::back_inserter(line), R"(, "{}": {}.{:06})", name, time / 1'000'000'000,
                 time % 1'000'000'000 / 1000);
}

std::string phases_of(const StepRecord& step, std::span<const std::string> names) {
  std::string phases;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (step.phases[i] > 0)
      phases += fmt::format("{}{}: {:.9f}", phases.empty() ? "" : ", ", json_string(names[i]),
                            seconds_of(step.phases[i]));
  return phases;
}

}  // namespace

std::string step_line(const RankLabel& rank, const PlanLabel& plan, const StepRecord& step,
                      std::span<const std::string> phase_names, std::int64_t wall_offset) {
  std::string line = fmt::format(R"({{"job": "{:016x}", "rank": {}, "plan": {})", rank.job,
                                 rank.rank, json_string(plan.name));
  if (!plan.process_set.empty())
    line += fmt::format(R"(, "process_set": {})", json_string(plan.process_set));
  line += fmt::format(R"(, "step": {})", step.step);
  const std::int64_t ended = step.ended + wall_offset;
  add_wall_time(line, "time", ended);
  add_wall_time(line, "arrived", ended - step.exposed);
  add_seconds(line, "step_seconds", step.length);
  add_seconds(line, "own_seconds", step.own());
  add_seconds(line, "blocked_seconds", step.blocked);
  add_seconds(line, "exposed_seconds", step.exposed);
  add_seconds(line, "exchange_seconds", step.exchange);
  line += fmt::format(R"(, "buckets": {}, "bytes": {})", step.buckets, step.bytes);
  if (step.wire_bytes) line += fmt::format(R"(, "wire_bytes": {})", *step.wire_bytes);
  const double algbw = rate_of(step.bytes, step.exchange);
  line += fmt::format(R"(, "algbw": {:.0f}, "busbw": {:.0f}, "phases": {{{}}}}})", algbw,
                      algbw * plan.bus_factor(), phases_of(step, phase_names));
  return line;
}

}  // namespace horo::metrics
