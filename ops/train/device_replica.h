#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "horo/horo.h"
#include "ops/optim/optimizer.h"
#include "ops/train/batch_upload.h"
#include "ops/train/device_step.h"
#include "ops/train/replica.h"

namespace horo::ops {

/// A copy of a model on a device. The host waits for the device only in next_outcome() with `wait`,
/// in evaluation, and when it is several steps ahead.
class DeviceReplica : public Replica {
 public:
  /// Borrows all arguments. share_state() throws as DeviceStep does.
  DeviceReplica(Context& context, Layer& model, Optimizer& optimizer,
                const ExchangeOptions& options, const DeviceTraining& training, EnterPhase enter);
  /// Blocks until the device is done.
  ~DeviceReplica() override {
    if (step_) step_->finish();
  }

  void share_state() override;
  void begin_step(std::uint64_t step, std::optional<float> learning_rate) override;
  void run_pass(Batch batch, const Pass& pass, double normaliser) override;
  void end_pass() override {}  // a step has one pass
  void end_step() override;
  std::optional<StepOutcome> next_outcome(bool wait) override;
  std::size_t count_correct(Batch batch) override;
  void average_buffers() override;
  void bring_back() override { step_->move_back(); }
  CompressionFigures compression() const override { return {}; }

 private:
  /// The results of a step, copied to pinned memory.
  struct Words {
    float loss;
    device_kernels::GradientVerdict verdict;
  };
  /// One of a few steps in flight, reused in turn.
  struct Slot {
    device::Memory words;
    /// The begin of forward, backward, the wait and the update, and the end of the update.
    std::array<std::unique_ptr<device::Event>, 5> marks;
    std::unique_ptr<device::Event> told;
  };

  Slot& slot() { return slots_[steps_ % slots_.size()]; }
  void mark(std::size_t place) { step_->stream().record(*slot().marks[place]); }
  StepOutcome wait_for_oldest();
  StepTimes times_of(const Slot& slot);

  Context& context_;
  Layer& model_;
  Optimizer& optimizer_;
  const ExchangeOptions options_;
  const EnterPhase enter_;
  const DeviceTraining training_;
  std::optional<DeviceStep> step_;     // set by share_state()
  std::optional<BatchUpload> upload_;  // set by share_state()
  std::array<Slot, 4> slots_;
  device::Memory score_;  // pinned
  std::uint64_t steps_ = 0, told_ = 0;
  std::deque<StepOutcome> known_;  // outcomes that next_outcome() has not returned yet
};

}  // namespace horo::ops
