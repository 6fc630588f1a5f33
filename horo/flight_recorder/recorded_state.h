#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "horo/flight_recorder/flight_reader.h"
#include "horo/flight_recorder/flight_recorder.h"
#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {

/// Provides the state of a rank of this process from the rank's flight recorder. Used by one
/// thread.
class RecordedState : public SnapshotProvider {
 public:
  /// `recorder` must outlive this object.
  explicit RecordedState(FlightRecorder& recorder) : recorder_(recorder) {}

  /// Copies the recorder's memory, 270 KiB. Times are by this host's current wall clock. The start
  /// of a bucket's exchange is the time of the first snapshot in which the exchange was in
  /// progress.
  RankSnapshot snapshot() override;

 private:
  using PlanKey = std::pair<std::uint32_t, std::uint32_t>;  // lane, lane_uses
  struct Observation {
    std::uint64_t progress = 0;
    WallTime since = 0;
  };
  void update_progress_times(FlightLog& log, WallTime now);

  FlightRecorder& recorder_;
  std::map<PlanKey, Observation> plans_;
};

}  // namespace horo::observe
