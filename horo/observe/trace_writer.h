#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace horo::observe {

/// Writes the JSON of a trace, event by event. Times are ns, written as us after `begin`.
class TraceWriter {
 public:
  explicit TraceWriter(std::int64_t begin) : begin_(begin) {}

  /// Details of an event, already as JSON members: `"bytes": 8`.
  struct Event {
    int process = 0;
    int lane = 0;
    std::string_view name, category;
    std::int64_t from = 0, to = 0;
    std::string_view details;
  };
  void name_process(int process, std::string_view name);
  void name_lane(int process, int lane, std::string_view name);
  /// An event of a lane in which events nest or follow each other.
  void add_nested(const Event& event);
  /// One that may overlap others of its lane in any way.
  void add_overlapping(const Event& event);

  /// The whole document. Nothing is added afterwards.
  std::string finish();

 private:
  void begin_event();
  double microseconds(std::int64_t time) const { return static_cast<double>(time - begin_) / 1e3; }

  std::int64_t begin_;
  std::string text_ = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  bool is_empty_ = true;
  std::uint64_t spans_ = 0;
};

/// `text` as a JSON string, quotes included; bytes that are no UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

}  // namespace horo::observe
