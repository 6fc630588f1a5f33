#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "horo/flight_recorder/flight_reader.h"
#include "horo/flight_recorder/flight_recorder.h"
#include "horo/flight_recorder/rank_snapshot.h"

namespace horo::observe {

/// Provides the state of this process's rank from its flight recorder. Used by one thread.
class RecordedState : public SnapshotProvider {
 public:
  /// `recorder` must outlive this object.
  explicit RecordedState(FlightRecorder& recorder) : recorder_(recorder) {}

  /// Copies the recorder's tables, 270 KiB. Times are converted to this host's current clock. The
  /// start of a gradient exchange is the time at which a snapshot first contained that exchange.
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
