#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>

#include "ops/train/step/step_outcome.h"
#include "ops/train/step/train_step.h"

namespace horo::ops {

/// The steps that a device has not completed, and their results: the device copies them to pinned
/// memory, and the host reads them later. Steps use a few slots in turn. Used from one thread.
class StepsInFlight {
 public:
  /// `step` trains on a device with the finite check, and must outlive this object.
  explicit StepsInFlight(TrainStep& step);

  /// The places where a phase begins, and the end of the step.
  enum class Mark { kForward, kBackward, kExchange, kUpdate, kEnd };
  /// Submits a mark of the current step. Requires that is_full() is false.
  void mark(Mark place);
  /// Submits the copy of the results of the current step.
  void end_step();

  bool is_full() const { return begun_ - returned_ == slots_.size(); }
  /// Whether all slots but one are in use.
  bool is_almost_full() const { return begun_ - returned_ + 1 >= slots_.size(); }
  bool is_empty() const { return begun_ == returned_; }
  /// Blocks until the oldest step is complete, and removes it. Throws the error of its exchange.
  StepOutcome wait_for_oldest();

 private:
  static constexpr std::size_t kMarks = 5;
  struct Slot {
    device::Memory verdict;  // pinned: a GradientVerdict
    device::Memory scalars;  // pinned: StepScalars
    device::Memory scale;    // pinned: a LossScale
    std::array<std::unique_ptr<device::Event>, kMarks> marks;
    std::unique_ptr<device::Event> copied;
    std::chrono::steady_clock::time_point begin;  // when the host submitted the first mark
    StepLaunch launch;
  };

  StepTimes times_of(const Slot& slot) const;

  TrainStep& step_;
  device::Device& device_;
  device::Stream& stream_;
  std::array<Slot, 4> slots_;
  std::uint64_t begun_ = 0, returned_ = 0;
};

}  // namespace horo::ops
