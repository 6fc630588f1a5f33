#pragma once

#include <memory>

#include "horo/metrics/rank_meter.h"
#include "horo/observe/state_source.h"

namespace horo::metrics {

/// Adds what a rank measures of itself to what its watchdog tells of it. Used by one thread.
class MeasuredState : public observe::StateSource {
 public:
  MeasuredState(std::unique_ptr<observe::StateSource> source,
                std::shared_ptr<const RankMeter> meter);

  observe::RankSnapshot snapshot() override;

 private:
  std::unique_ptr<observe::StateSource> source_;
  std::shared_ptr<const RankMeter> meter_;
};

}  // namespace horo::metrics
