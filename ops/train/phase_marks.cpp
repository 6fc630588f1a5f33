#include "ops/train/phase_marks.h"

namespace horo::ops {

std::string_view mark_of(Phase phase) {
  switch (phase) {
    case Phase::kDataWait:
      return "data";
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kExposedCommunication:
      return {};
    case Phase::kOptimizer:
      return "update";
  }
  return {};
}

void PhaseMarks::enter(Phase phase) {
  leave();
  if (const std::string_view mark = mark_of(phase); !mark.empty())
    current_.emplace(context_.phase(mark));
}

}  // namespace horo::ops
