#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "horo/flight_recorder/rank_snapshot.h"
#include "horo/metrics/arrival_skew.h"
#include "horo/metrics/rank_meter.h"
#include "horo/metrics/step_line.h"

namespace horo::metrics {

/// Names and values of labels, such as {"rank", "3"}.
using Labels = std::vector<std::pair<std::string_view, std::string>>;

/// Writes metric families in Prometheus's text format, version 0.0.4. Names of families and labels
/// must be valid in this format. Label values may have any bytes.
class PrometheusText {
 public:
  enum class Type { kCounter, kGauge };

  /// Starts a family. Later calls of add() write samples of this family. A family without samples
  /// is omitted.
  void begin(std::string_view name, Type type, std::string_view help);
  void add(const Labels& labels, double value);

  const std::string& text() const { return text_; }

 private:
  std::string heading_;  // heading of a family that has no sample yet
  std::string name_;
  std::string text_;
};

/// Returns printable(`value`) with each backslash and each double quote escaped by a backslash.
std::string escape_label(std::string_view value);
/// Returns the shortest decimal number that reads back as `value`, or NaN, +Inf or -Inf.
std::string prometheus_number(double value);

/// The contents of a page of metrics. Times are in ns.
struct MetricsSnapshot {
  RankLabel rank;
  int size = 1;
  bool is_running = true;  ///< false after the rank has left the job or failed
  bool is_paused = false;  ///< whether the rank is in a Context::pause()
  observe::WallTime written = 0;
  std::int64_t since_progress = 0;  ///< since a bucket or named operation was last seen to finish
  std::uint64_t operations = 0;     ///< number of finished named operations
  std::uint64_t lost_lines = 0;     ///< number of steps without a line
  RankMeter::Snapshot meter;
  /// On rank 0, the measurements of the ranks that its watchdog sees. Empty on other ranks.
  std::vector<RankComparison> ranks;
  std::vector<PlanSkew> skews;
};

/// Returns the page of a rank in Prometheus's text format. docs/guides/metrics.md describes the
/// metrics. Pure.
std::string metrics_page(const MetricsSnapshot& snapshot);

/// Returns the at most three ranks that delayed the others most, in descending order of delay.
/// Omits ranks whose delay is less than 1 % of their time in the job. Pure.
std::vector<RankComparison> find_stragglers(std::vector<RankComparison> ranks);

}  // namespace horo::metrics
