#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "horo/metrics/arrival_skew.h"
#include "horo/metrics/metrics_files.h"
#include "horo/metrics/metrics_page.h"
#include "horo/metrics/rank_meter.h"
#include "horo/metrics/step_line.h"
#include "horo/observe/flight_recorder.h"

namespace horo::metrics {

/// How often lines are written, and the page.
inline constexpr std::chrono::milliseconds kLinesInterval{250};
inline constexpr int kLinesPerPage = 4;

/// Writes what a rank measures to its files, from a thread of its own, and once more when it goes.
/// If that fails, that is one warning, and the lines are counted as lost.
class MetricsWriter {
 public:
  /// `recorder` outlives this.
  MetricsWriter(RankLabel rank, int size, std::shared_ptr<RankMeter> meter,
                const observe::FlightRecorder& recorder, MetricsFiles files);
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  /// Writes what has been measured so far. Returns once it is written or cannot be, or, with a
  /// warning, after `limit`: the file system may hang.
  void flush(std::chrono::nanoseconds limit);
  /// What rank 0's watchdog sees of all ranks. Thread-safe.
  void note_ranks(std::span<const observe::RankSnapshot> ranks);

 private:
  void run(const std::string& log_label) noexcept;
  void write_rounds();
  void write_lines();
  void write_page();
  void warn_once();
  MetricsPicture picture();

  const RankLabel rank_;
  const int size_;
  const std::shared_ptr<RankMeter> meter_;
  const observe::FlightRecorder& recorder_;
  MetricsFiles files_;
  std::vector<StepRecord> records_;
  std::uint64_t lost_ = 0;  // lines that could not be written
  bool has_warned_ = false;
  std::uint64_t operations_ = 0;
  std::int64_t operations_changed_ = 0;

  std::mutex skew_mutex_;  // guards skew_
  ArrivalSkew skew_;

  std::mutex sleep_mutex_;  // guards should_stop_ and those below it
  std::condition_variable wake_, written_;
  bool should_stop_ = false;
  bool has_stopped_ = false;
  std::uint64_t flushes_asked_ = 0, flushes_done_ = 0;
  std::jthread thread_;
};

}  // namespace horo::metrics
