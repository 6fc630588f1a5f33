#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace horo::ops {

/// What a training step spends its time on. Communication that overlaps with backward is not a
/// phase: only what the step waits for counts.
enum class Phase { kDataWait, kForward, kBackward, kExposedCommunication, kOptimizer };
inline constexpr std::size_t kPhaseCount = 5;
/// "data_wait", "forward", ...: the names of the report.
std::string_view name_of(Phase phase);

/// Milliseconds of a step, in all and by phase.
struct StepTimes {
  std::array<double, kPhaseCount> phase_ms{};
  double total_ms = 0;

  double& operator[](Phase phase) { return phase_ms[static_cast<std::size_t>(phase)]; }
  double operator[](Phase phase) const { return phase_ms[static_cast<std::size_t>(phase)]; }
};

/// "step 12.3 ms: data wait 1 %, forward 30 %, ...": one line, shares of the total.
std::string describe(const StepTimes& times);

/// Measures the phases of each step. Used from one thread.
class StepTimer {
 public:
  using Clock = std::chrono::steady_clock;

  /// `now`: for tests, another clock.
  explicit StepTimer(std::function<Clock::time_point()> now = Clock::now) : now_(std::move(now)) {}

  /// Begins a step, in `phase`.
  void begin_step(Phase phase);
  /// Ends the phase under way and begins `phase`.
  void enter(Phase phase);
  /// Ends the phase and the step. What happens until the next begin_step() is not counted.
  void end_step();
  /// A step that was measured elsewhere.
  void add(const StepTimes& times) { steps_.push_back(times); }

  std::size_t step_count() const { return steps_.size(); }
  /// Of the latest finished step.
  const StepTimes& latest() const { return steps_.back(); }
  /// Of each column on its own, over all steps but the first, which also warms caches up (of that
  /// one if it is the only one; zeros without any).
  StepTimes medians() const;
  StepTimes means() const;

 private:
  std::function<Clock::time_point()> now_;
  std::vector<StepTimes> steps_;
  StepTimes current_;
  Phase phase_ = Phase::kDataWait;
  Clock::time_point phase_start_;
};

}  // namespace horo::ops
