#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "collectives/collectives.h"
#include "horo/base/topology.h"
#include "horo/flight_recorder/flight_recorder.h"
#include "horo/flight_recorder/rank_snapshot.h"

namespace horo {

namespace metrics {
class MetricsFiles;
class MetricsWriter;
class RankMeter;
}  // namespace metrics

/// Measures the steps of a rank and writes the measurements while the rank is in the job. A
/// default-constructed object is off.
class RankMetrics {
 public:
  RankMetrics();
  /// `directory` is HORO_METRICS, and empty if metrics are off. Opens the files; require_files()
  /// throws if this has failed. `topology` must outlive this object.
  RankMetrics(const std::string& directory, const Topology& topology);
  ~RankMetrics();
  RankMetrics(const RankMetrics&) = delete;
  RankMetrics& operator=(const RankMetrics&) = delete;

  /// Throws InvalidArgument, with the same text on every rank, if a rank could not open its files.
  /// Collective.
  void require_files(collectives::Collectives& collectives) const;
  /// The same for a job of one rank. Not collective.
  void require_files() const;
  /// Starts to write. `recorder` must stay valid until end() has returned.
  void start(std::uint64_t job, const observe::FlightRecorder& recorder);
  /// Writes the measurements so far. Waits for at most `limit`.
  void flush(std::chrono::nanoseconds limit);
  /// Writes the remaining measurements and ends the writer's thread.
  void end() noexcept;
  /// Leaks the writer. For a child process of fork(), which does not have the writer's thread.
  void forget() noexcept;

  /// The meter of this rank. Null if this object is off.
  const std::shared_ptr<metrics::RankMeter>& meter() const { return meter_; }
  /// Returns a provider that adds the measurements to the snapshots of `source`. Returns `source`
  /// itself if this object is off.
  std::unique_ptr<observe::SnapshotProvider> measure(
      std::unique_ptr<observe::SnapshotProvider> source) const;
  /// Passes `ranks`, the snapshots that the watchdog of rank 0 has received, to the writer. Called
  /// by the watchdog's thread between start() and end().
  void update_ranks(std::span<const observe::RankSnapshot> ranks);

 private:
  const Topology* topology_ = nullptr;
  std::shared_ptr<metrics::RankMeter> meter_;
  std::unique_ptr<metrics::MetricsFiles> files_;
  std::string job_error_text_;  // why there are no files
  std::unique_ptr<metrics::MetricsWriter> writer_;
};

}  // namespace horo
