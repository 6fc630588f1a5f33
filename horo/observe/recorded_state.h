#pragma once

#include "horo/observe/flight_recorder.h"
#include "horo/observe/state_source.h"

namespace horo::observe {

/// What a rank is doing, by its own flight recorder. Used by one thread.
class RecordedState : public StateSource {
 public:
  /// `recorder` outlives this.
  explicit RecordedState(FlightRecorder& recorder) : recorder_(recorder) {}

  /// Reads the recorder's tables, about 260 KiB; times are by this host's clock as it is now.
  RankSnapshot snapshot() override;

 private:
  FlightRecorder& recorder_;
};

}  // namespace horo::observe
