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

#include "horo/flight_recorder/flight_recorder.h"
#include "horo/metrics/arrival_skew.h"
#include "horo/metrics/metrics_files.h"
#include "horo/metrics/metrics_page.h"
#include "horo/metrics/rank_meter.h"
#include "horo/metrics/step_line.h"

namespace horo::metrics {

/// The interval at which lines are written. The page is written every kLinesPerPage intervals.
inline constexpr std::chrono::milliseconds kLinesInterval{250};
inline constexpr int kLinesPerPage = 4;

/// Writes the measurements of a rank to the rank's files. The writer's own thread writes after each
/// interval, at the request of flush(), and a last time when the writer is destroyed. If lines
/// cannot be written, the writer counts them as lost. The writer logs a warning for the first
/// failure only. If the file system hangs, only the writer's thread and the destructor, which joins
/// the thread, wait for it without limit.
class MetricsWriter {
 public:
  /// `recorder` must outlive this object.
  MetricsWriter(RankLabel rank, int size, std::shared_ptr<RankMeter> meter,
                const observe::FlightRecorder& recorder, MetricsFiles files);
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  /// Writes all measurements so far. Returns when they are written or the write has failed. If this
  /// takes longer than `limit`, logs a warning and returns.
  void flush(std::chrono::nanoseconds limit);
  /// Adds snapshots of the ranks to the comparison of the ranks. Called by the watchdog of rank 0.
  /// Thread-safe.
  void update_ranks(std::span<const observe::RankSnapshot> ranks);

 private:
  void run(const std::string& log_label) noexcept;
  void write_rounds();
  void write_lines();
  void write_page();
  void warn_once();
  MetricsSnapshot snapshot();

  const RankLabel rank_;
  const int size_;
  const std::shared_ptr<RankMeter> meter_;
  const observe::FlightRecorder& recorder_;
  MetricsFiles files_;
  std::vector<StepRecord> records_;
  std::uint64_t lost_ = 0;  // number of lines that could not be written
  bool has_warned_ = false;
  std::uint64_t operations_ = 0;
  std::int64_t operations_changed_ = 0;

  std::mutex skew_mutex_;  // guards skew_
  ArrivalSkew skew_;

  std::mutex sleep_mutex_;  // guards the members from should_stop_ to flushes_done_
  std::condition_variable wake_, written_;
  bool should_stop_ = false;
  bool has_stopped_ = false;
  std::uint64_t flushes_asked_ = 0, flushes_done_ = 0;
  std::jthread thread_;
};

}  // namespace horo::metrics
