#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace horo::observe {

/// Writes a trace in Chrome's Trace Event Format (JSON), event by event. Times are passed in ns and
/// written in us since `begin`.
class TraceWriter {
 public:
  explicit TraceWriter(std::int64_t begin) : begin_(begin) {}

  /// `details` has further JSON members, such as `"bytes": 8`.
  struct Event {
    int process = 0;
    int lane = 0;
    std::string_view name, category;
    std::int64_t from = 0, to = 0;
    std::string_view details;
  };
  void name_process(int process, std::string_view name);
  void name_lane(int process, int lane, std::string_view name);
  /// Adds an event to a lane in which events are nested or do not overlap.
  void add_nested(const Event& event);
  /// Adds an event that may overlap other events of its lane in any way.
  void add_overlapping(const Event& event);

  /// Returns the complete document. No event may be added afterwards.
  std::string finish();

 private:
  void begin_event();
  double microseconds(std::int64_t time) const { return static_cast<double>(time - begin_) / 1e3; }

  std::int64_t begin_;
  std::string text_ = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  bool is_empty_ = true;
  std::uint64_t spans_ = 0;
};

}  // namespace horo::observe
