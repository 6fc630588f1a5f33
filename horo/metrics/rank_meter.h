#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "horo/flight_recorder/flight_recorder.h"
#include "horo/flight_recorder/rank_snapshot.h"
#include "horo/metrics/step_record.h"

namespace horo::metrics {

/// Measures one rank: its phases, the time blocked in horo, and the steps of its plans. Threads of
/// the program write; the metrics writer and the watchdog read. Thread-safe. Every call takes one
/// mutex that is held only while small structures are copied.
class RankMeter {
 public:
  /// The maximum number of steps that wait for drain(). Further steps are counted as lost.
  static constexpr std::size_t kMostRecords = 4096;
  /// The maximum number of distinct plans. Further plans share the last one.
  static constexpr std::size_t kMostPlans = 64;
  /// The number of plans, and of their latest steps, whose waits are reported to rank 0.
  static constexpr std::size_t kReportedPlans = 4;
  static constexpr std::size_t kReportedSteps = 32;

  explicit RankMeter(std::int64_t now = observe::flight_clock());

  /// Returns the number that end_phase() takes.
  std::uint64_t begin_phase(std::string_view name);
  void end_phase(std::uint64_t number);

  /// Marks the start and the end of a wait inside horo by a thread of the program. begin_wait()
  /// returns the start time.
  std::int64_t begin_wait();
  void end_wait(std::int64_t now);

  /// The index of the plan with this name and process set. A plan that is created again continues
  /// the sums and step numbers of the earlier one.
  std::size_t plan(const PlanLabel& label);
  /// Accumulated times.
  struct Reading {
    std::int64_t blocked = 0;
    PhaseNanoseconds phases{};
  };
  Reading read(std::int64_t now) const;
  /// Assigns the step's number and keeps the record for drain().
  void add(StepRecord record);
  /// Records that an exchange has finished.
  void record_progress(std::int64_t now) { progress_.store(now, std::memory_order_relaxed); }
  std::int64_t progress() const { return progress_.load(std::memory_order_relaxed); }

  /// Moves the collected records into `records`, which is cleared first. Its memory is reused.
  void drain(std::vector<StepRecord>& records);

  struct Plan {
    PlanLabel label;
    StepSums sums;
    std::array<std::int64_t, kReportedSteps> waits{};  // of step i at index i % kReportedSteps
  };
  /// All measurements up to the `now` of snapshot().
  struct Snapshot {
    std::int64_t own = 0, blocked = 0;
    std::vector<std::string> phase_names;
    PhaseNanoseconds phases{};
    PhaseNanoseconds phases_in_steps{};  // up to the end of the latest step
    std::vector<Plan> plans;
    std::uint64_t lost = 0;  ///< number of lost records
  };
  Snapshot snapshot(std::int64_t now) const;
  /// The measurements that rank 0 receives. If there was a step, phases are counted up to the end
  /// of the latest step, because later phases have not delayed any rank.
  observe::MeasuredTimes measured(std::int64_t now) const;

 private:
  std::int64_t blocked_until(std::int64_t now) const;

  const std::int64_t begun_;
  std::atomic<std::int64_t> progress_;
  mutable std::mutex mutex_;  // guards the members below
  PhaseTimes phases_;
  int waiting_ = 0;  // number of waiting threads
  std::int64_t blocked_ = 0, waiting_since_ = 0;
  std::vector<Plan> plans_;
  std::vector<StepRecord> records_;
  std::uint64_t lost_ = 0;
  PhaseNanoseconds phases_in_steps_{};  // at the end of the latest step
};

/// Measures a wait inside horo, from construction to destruction. Does nothing if `meter` is null.
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

/// Adds a rank's measurements to the snapshots of `source`. Used by one thread.
class MeasuredState : public observe::SnapshotProvider {
 public:
  MeasuredState(std::unique_ptr<observe::SnapshotProvider> source,
                std::shared_ptr<const RankMeter> meter);

  observe::RankSnapshot snapshot() override;

 private:
  std::unique_ptr<observe::SnapshotProvider> source_;
  std::shared_ptr<const RankMeter> meter_;
};

}  // namespace horo::metrics
