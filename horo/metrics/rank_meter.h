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
/// the program and of plans write the measurements. The metrics writer and the watchdog read them.
/// Thread-safe. All functions except record_progress() and progress() lock one mutex.
class RankMeter {
 public:
  /// The maximum number of records that add() keeps until drain(). Further records are counted as
  /// lost.
  static constexpr std::size_t kMostRecords = 4096;
  /// The maximum number of entries for plans. The first kMostPlans - 1 plans have an entry each,
  /// and all further plans share the last entry.
  static constexpr std::size_t kMostPlans = 64;
  /// The maximum number of plans that are reported to rank 0, and the number of latest steps of
  /// each plan whose waits are reported.
  static constexpr std::size_t kReportedPlans = 4;
  static constexpr std::size_t kReportedSteps = 32;

  explicit RankMeter(std::int64_t now = observe::flight_clock());

  /// Starts a phase or pause. Returns the number to pass to end_phase().
  std::uint64_t begin_phase(std::string_view name);
  void end_phase(std::uint64_t number);

  /// Marks the start and the end of a wait inside horo by a thread of the program. begin_wait()
  /// returns the start time.
  std::int64_t begin_wait();
  void end_wait(std::int64_t now);

  /// Returns the index of the entry for the plan with this name and process set. A plan that is
  /// created again continues the sums and step numbers of the earlier plan.
  std::size_t plan(const PlanLabel& label);
  /// Times since the construction of the meter.
  struct Reading {
    std::int64_t blocked = 0;
    PhaseNanoseconds phases{};
  };
  Reading read(std::int64_t now) const;
  /// Assigns the step's number, adds the step to the sums of its plan, and keeps the record for
  /// drain(). If kMostRecords records wait already, counts the record as lost instead of keeping
  /// it.
  void add(StepRecord record);
  /// Records that the exchange of a bucket has finished. progress() returns the time of the latest
  /// call, or initially the time of construction.
  void record_progress(std::int64_t now) { progress_.store(now, std::memory_order_relaxed); }
  std::int64_t progress() const { return progress_.load(std::memory_order_relaxed); }

  /// Clears `records` and moves the kept records into it. Reuses the memory of `records`.
  void drain(std::vector<StepRecord>& records);

  struct Plan {
    PlanLabel label;
    StepSums sums;
    std::array<std::int64_t, kReportedSteps> waits{};  // wait of step i at i % kReportedSteps
  };
  /// All measurements. Times of the rank are up to the `now` of snapshot(), and sums of plans up to
  /// the latest complete step.
  struct Snapshot {
    std::int64_t own = 0, blocked = 0;
    std::vector<std::string> phase_names;
    PhaseNanoseconds phases{};
    PhaseNanoseconds phases_in_steps{};  // up to the end of the latest step
    std::vector<Plan> plans;
    std::uint64_t lost = 0;  ///< number of records that add() has not kept
  };
  Snapshot snapshot(std::int64_t now) const;
  /// Returns the measurements that rank 0 receives. After the first step of any plan, phases are
  /// counted only up to the end of the latest step, because later phases have not delayed a step
  /// yet.
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
