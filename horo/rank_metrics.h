#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "collectives/collectives.h"
#include "horo/base/topology.h"
#include "horo/observe/flight_recorder.h"
#include "horo/observe/state_source.h"

namespace horo {

namespace metrics {
class MetricsFiles;
class MetricsWriter;
class RankMeter;
}  // namespace metrics

/// What a rank measures of its steps, and who writes it, from joining the job to leaving it. A
/// default one is off: it measures and writes nothing.
class RankMetrics {
 public:
  RankMetrics();
  /// `directory`: HORO_METRICS, empty for off. Opens the files; whether that went well is told by
  /// require_files(). `topology` outlives this.
  RankMetrics(const std::string& directory, const Topology& topology);
  ~RankMetrics();
  RankMetrics(const RankMetrics&) = delete;
  RankMetrics& operator=(const RankMetrics&) = delete;

  /// Throws InvalidArgument, with the same text on every rank, if a rank has no files. Collective.
  void require_files(collectives::Collectives& collectives) const;
  /// The same for a job of one.
  void require_files() const;
  /// Begins to write. `recorder` lives until end().
  void start(std::uint64_t job, const observe::FlightRecorder& recorder);
  /// Writes what has been measured so far, before it returns; waits for at most `limit`.
  void flush(std::chrono::nanoseconds limit);
  /// Writes what is left. Nothing is written afterwards.
  void end() noexcept;
  /// In a child process of fork(), where the thread is not.
  void forget() noexcept;

  /// Null if it is off.
  const std::shared_ptr<metrics::RankMeter>& meter() const { return meter_; }
  /// `source`, and what is measured.
  std::unique_ptr<observe::StateSource> measure(std::unique_ptr<observe::StateSource> source) const;
  /// What the watchdog of rank 0 sees; between start() and end().
  void note_ranks(std::span<const observe::RankSnapshot> ranks);

 private:
  const Topology* topology_ = nullptr;
  std::shared_ptr<metrics::RankMeter> meter_;
  std::unique_ptr<metrics::MetricsFiles> files_;
  std::string problem_;  // why there are none
  std::unique_ptr<metrics::MetricsWriter> writer_;
};

}  // namespace horo
