#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "horo/metrics/phase_times.h"
#include "horo/metrics/step_record.h"
#include "horo/observe/flight_recorder.h"
#include "horo/observe/rank_snapshot.h"

namespace horo::metrics {

/// What a rank measures of itself: phases, time blocked in horo, and the steps of its plans. The
/// threads of the program write it, one that writes files takes it out. Thread-safe; every call
/// takes one lock that nobody holds for longer than a few copies.
class RankMeter {
 public:
  /// Steps that wait to be taken; more are counted as lost.
  static constexpr std::size_t kMostRecords = 4096;
  /// Plans that are told apart; those beyond count as one.
  static constexpr std::size_t kMostPlans = 64;
  /// Of how many plans, and of how many of their latest steps, the waits are told to rank 0.
  static constexpr std::size_t kToldPlans = 4;
  static constexpr std::size_t kToldSteps = 32;

  explicit RankMeter(std::int64_t now = observe::flight_clock());

  /// Returns the number to end it with.
  std::uint64_t begin_phase(std::string_view name);
  void end_phase(std::uint64_t number);

  /// A thread of the program begins to wait inside horo, at the time returned, and ends.
  std::int64_t begin_wait();
  void end_wait(std::int64_t now);

  /// The number of a plan of this name and set: the same if there was one before, whose sums and
  /// steps it goes on with.
  std::size_t plan(const PlanLabel& label);
  /// What has added up until `now`.
  struct Reading {
    std::int64_t blocked = 0;
    PhaseNanoseconds phases{};
  };
  Reading read(std::int64_t now) const;
  /// Numbers the step and keeps it for take().
  void add(StepRecord record);
  /// Something was exchanged.
  void note_progress(std::int64_t now) { progress_.store(now, std::memory_order_relaxed); }
  std::int64_t progress() const { return progress_.load(std::memory_order_relaxed); }

  /// Swaps `records` for those that were added; it is emptied first and keeps its memory.
  void take(std::vector<StepRecord>& records);

  struct Plan {
    PlanLabel label;
    StepSums sums;
    std::array<std::int64_t, kToldSteps> waits{};  // of step i at i % kToldSteps
  };
  /// Everything up to `now`.
  struct Picture {
    std::int64_t own = 0, blocked = 0;
    std::vector<std::string> phase_names;
    PhaseNanoseconds phases{};
    PhaseNanoseconds phases_in_steps{};  // up to the end of the latest step
    std::vector<Plan> plans;
    std::uint64_t lost = 0;  ///< records
  };
  Picture picture(std::int64_t now) const;
  /// What rank 0 is told. Phases up to the end of the latest step, if there was one: what comes
  /// after the last step has made nobody late.
  observe::MeasuredTimes measured(std::int64_t now) const;

 private:
  std::int64_t blocked_until(std::int64_t now) const;

  const std::int64_t begun_;
  std::atomic<std::int64_t> progress_;
  mutable std::mutex mutex_;  // guards all below
  PhaseTimes phases_;
  int waiting_ = 0;  // threads
  std::int64_t blocked_ = 0, waiting_since_ = 0;
  std::vector<Plan> plans_;
  std::vector<StepRecord> records_;
  std::uint64_t lost_ = 0;
  PhaseNanoseconds phases_in_steps_{};  // when the latest step ended
};

/// A wait of a thread of the program inside horo, as long as it lives. Without a meter nothing.
class Blocked {
 public:
  explicit Blocked(RankMeter* meter)
      : meter_(meter), since_(meter == nullptr ? 0 : meter->begin_wait()) {}
  ~Blocked() {
    if (meter_ != nullptr) meter_->end_wait(observe::flight_clock());
  }
  Blocked(const Blocked&) = delete;
  Blocked& operator=(const Blocked&) = delete;

  std::int64_t since() const { return since_; }

 private:
  RankMeter* meter_;
  std::int64_t since_;
};

}  // namespace horo::metrics
