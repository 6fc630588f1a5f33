#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "horo/horo.h"

namespace horo::ops {

/// Counts the control messages of training steps, without those between steps (evaluation,
/// broadcast). Used from one thread.
class ControlMessageCount {
 public:
  /// `context` must outlive this object.
  explicit ControlMessageCount(const Context& context) : context_(context) {}

  /// Call before a step.
  void begin_step() { before_ = context_.counters().control_messages_sent; }
  /// Call after a step.
  void end_step() {
    // The first step may send messages to set up plans.
    if (steps_++ > 0) messages_ += context_.counters().control_messages_sent - before_;
  }
  /// The number of messages in the counted steps.
  std::uint64_t messages() const { return messages_; }
  /// The number of counted steps.
  std::uint64_t steps() const { return steps_ > 0 ? steps_ - 1 : 0; }

 private:
  const Context& context_;
  std::uint64_t before_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t steps_ = 0;
};

/// The phases of a training step. Communication that overlaps with backward is not a phase of its
/// own; only the time that the step waits for it counts.
enum class StepPhase {
  kDataWait,
  kForward,
  kBackward,
  kExposedCommunication,
  kOptimizer,
  kTransfer,    ///< submission of the copy of a batch to a device
  kLogging,     ///< progress lines, and callbacks that name no other phase
  kCheckpoint,  ///< copy of the state for a checkpoint, and the wait for the writer
};
inline constexpr std::size_t kPhaseCount = 8;  ///< the number of phases
/// "data_wait", "forward", ...: the keys of the report.
std::string_view name_of(StepPhase phase);

/// Milliseconds of a step in total and by phase.
struct StepTimes {
  std::array<double, kPhaseCount> phase_ms{};  ///< by StepPhase
  double total_ms = 0;                         ///< of the step

  /// The milliseconds of a phase.
  double& operator[](StepPhase phase) { return phase_ms[static_cast<std::size_t>(phase)]; }
  /// The same, read-only.
  double operator[](StepPhase phase) const { return phase_ms[static_cast<std::size_t>(phase)]; }
};

/// "step 12.3 ms: data wait 1 %, forward 30 %, ...": one line, shares of the total. The phases from
/// kTransfer on are omitted if they took no time.
std::string describe(const StepTimes& times);

/// Measures the phases of each step. Used from one thread.
class StepTimer {
 public:
  /// The clock of the host.
  using Clock = std::chrono::steady_clock;

  /// `now`: the clock; tests pass their own.
  explicit StepTimer(std::function<Clock::time_point()> now = Clock::now) : now_(std::move(now)) {}

  /// Begins a step, in `phase`.
  void begin_step(StepPhase phase);
  /// Ends the current phase and begins `phase`.
  void enter(StepPhase phase);
  /// Ends the current phase and the step. The time until the next begin_step() is not counted.
  void end_step();
  /// Continues the latest step, in `phase`, until the next end_step(): for work that follows the
  /// step, such as logging. The time since end_step() is not counted. Requires a finished step.
  void resume_step(StepPhase phase);
  /// Adds a step that was measured elsewhere.
  void add(const StepTimes& times);

  /// The number of steps.
  std::size_t step_count() const { return steps_.size(); }
  /// The sum over all steps.
  double total_ms() const { return total_ms_; }
  /// All finished steps, the oldest first.
  const std::vector<StepTimes>& steps() const { return steps_; }
  /// Of the latest finished step.
  const StepTimes& latest() const { return steps_.back(); }
  /// Statistics of each phase over all steps but the first, which warms up the caches. With one
  /// step: that step. Without steps: zeros.
  StepTimes medians() const;
  /// The same as mean values.
  StepTimes means() const;

 private:
  std::function<Clock::time_point()> now_;
  std::vector<StepTimes> steps_;
  StepTimes current_;
  double total_ms_ = 0;
  bool is_resumed_ = false;  // current_ replaces the latest step
  StepPhase phase_ = StepPhase::kDataWait;
  Clock::time_point phase_start_;
};

/// Reports the phase of a step to horo (Context::phase): "data", "forward", "backward" or "update".
/// Time spent waiting for other ranks belongs to no phase, so that it is not taken for work of this
/// rank. Used from one thread.
class PhaseScopes {
 public:
  /// `context` must outlive this object.
  explicit PhaseScopes(Context& context) : context_(context) {}

  /// Leaves the current phase and enters `phase`.
  void enter(StepPhase phase);
  /// Leaves the current phase.
  void leave() { current_.reset(); }

 private:
  Context& context_;
  std::optional<horo::TraceScope> current_;
};

/// The name of the phase for Context::phase; empty for a phase that is not reported.
std::string_view scope_name_of(StepPhase phase);

}  // namespace horo::ops
