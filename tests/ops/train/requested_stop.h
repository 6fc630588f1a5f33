#pragma once

#include <cstdint>

#include "ops/train/callbacks/callback.h"

namespace horo::ops {

/// Requests on this rank, from step number `step` on, to stop; 0: never.
class RequestedStop : public TrainerCallback {
 public:
  explicit RequestedStop(std::uint64_t step) : step_(step) {}
  StepRequests requests() override {
    ++begun_;
    return {.stop = step_ > 0 && begun_ >= step_ ? 1.0f : 0.0f};
  }

 private:
  const std::uint64_t step_;
  std::uint64_t begun_ = 0;
};

}  // namespace horo::ops
