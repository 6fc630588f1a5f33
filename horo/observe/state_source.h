#pragma once

#include "horo/observe/rank_snapshot.h"

namespace horo::observe {

/// Knows what a rank is doing. Asked by the watchdog's thread while others change it.
class StateSource {
 public:
  virtual ~StateSource() = default;
  virtual RankSnapshot snapshot() = 0;
};

}  // namespace horo::observe
