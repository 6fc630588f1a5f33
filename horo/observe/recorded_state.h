#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "horo/observe/flight_reader.h"
#include "horo/observe/flight_recorder.h"
#include "horo/observe/state_source.h"

namespace horo::observe {

/// What a rank is doing, by its own flight recorder. Used by one thread.
class RecordedState : public StateSource {
 public:
  /// `recorder` outlives this.
  explicit RecordedState(FlightRecorder& recorder) : recorder_(recorder) {}

  /// Reads the recorder's tables, about 260 KiB. Times are by this host's clock as it is now; an
  /// exchange of gradients has begun when it was first seen here.
  RankSnapshot snapshot() override;

 private:
  using PlanKey = std::pair<std::uint32_t, std::uint32_t>;  // lane and its uses
  struct Sight {
    std::uint64_t progress = 0;
    WallTime since = 0;
  };
  void note_exchanges(FlightLog& log, WallTime now);

  FlightRecorder& recorder_;
  std::map<PlanKey, Sight> plans_;
};

}  // namespace horo::observe
