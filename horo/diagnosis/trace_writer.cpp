#include "horo/diagnosis/trace_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "horo/base/text/printable.h"

namespace horo::observe {

void TraceWriter::begin_event() {
  text_ += is_empty_ ? "\n" : ",\n";
  is_empty_ = false;
}

void TraceWriter::name_process(int process, std::string_view name) {
  begin_event();
  fmt::format_to(std::back_inserter(text_),
                 R"({{"ph": "M", "name": "process_name", "pid": {}, "args": {{"name": {}}}}})",
                 process, json_string(name));
  begin_event();
  fmt::format_to(
      std::back_inserter(text_),
      R"({{"ph": "M", "name": "process_sort_index", "pid": {0}, "args": {{"sort_index": {0}}}}})",
      process);
}

void TraceWriter::name_lane(int process, int lane, std::string_view name) {
  begin_event();
  fmt::format_to(
      std::back_inserter(text_),
      R"({{"ph": "M", "name": "thread_name", "pid": {}, "tid": {}, "args": {{"name": {}}}}})",
      process, lane, json_string(name));
  begin_event();
  fmt::format_to(
      std::back_inserter(text_),
      R"({{"ph": "M", "name": "thread_sort_index", "pid": {0}, "tid": {1}, "args": {{"sort_index": {1}}}}})",
      process, lane);
}

// Writes a complete event ("X"). Viewers nest the complete events of a lane by their times.
void TraceWriter::add_nested(const Event& event) {
  begin_event();
  fmt::format_to(
      std::back_inserter(text_),
      R"({{"ph": "X", "name": {}, "cat": {}, "pid": {}, "tid": {}, "ts": {:.3f}, "dur": {:.3f}, "args": {{{}}}}})",
      json_string(event.name), json_string(event.category), event.process, event.lane,
      microseconds(event.from),
      static_cast<double>(std::max(event.to - event.from, std::int64_t{0})) / 1e3, event.details);
}

// Asynchronous events need an identifier, because viewers use the identifier to match the begin and
// the end of an event.
void TraceWriter::add_overlapping(const Event& event) {
  ++spans_;
  for (const auto& [phase, time] : {std::pair{'b', event.from}, std::pair{'e', event.to}}) {
    begin_event();
    fmt::format_to(
        std::back_inserter(text_),
        R"({{"ph": "{}", "name": {}, "cat": {}, "pid": {}, "tid": {}, "id": {}, "ts": {:.3f}, "args": {{{}}}}})",
        phase, json_string(event.name), json_string(event.category), event.process, event.lane,
        spans_, microseconds(time), phase == 'b' ? event.details : std::string_view());
  }
}

std::string TraceWriter::finish() {
  text_ += "\n]}\n";
  return std::move(text_);
}

}  // namespace horo::observe
