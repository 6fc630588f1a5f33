#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"
#include "horo/flight_recorder/flight_recorder.h"

namespace horo::observe {

/// Describes a plan to a recorder.
struct PlanDescription {
  std::string name;
  std::string process_set;             ///< empty for all ranks
  std::vector<std::string> gradients;  ///< the names of the gradients
  std::vector<std::size_t> bucket_of;  ///< bucket_of[i]: bucket of gradient i
  std::vector<std::size_t> bytes_of;   ///< bytes_of[b]: size of bucket b
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kAverage;
};

/// Records the activity of a plan: which gradients are marked, which bucket is next, and the times
/// of the timed buckets. Steps count from the construction of this object. If the buckets of a plan
/// change, a new object replaces this object.
///
/// A bucket of at least kAlwaysTimed bytes is timed in every step. A smaller bucket is timed in the
/// first two steps and in the first step that begins after a pulse of the recorder. In the other
/// steps, recording a small bucket takes a few relaxed stores and no clock reading.
///
/// mark(), mark_in_step(), first(), complete() and is_timed() may be called from several threads at
/// the same time. The caller must call all other members from one thread at a time.
class PlanFlight {
 public:
  static constexpr std::size_t kAlwaysTimed = 128 * 1024;

  /// `recorder` must outlive this object.
  PlanFlight(FlightRecorder& recorder, const PlanDescription& description);
  ~PlanFlight();
  PlanFlight(const PlanFlight&) = delete;
  PlanFlight& operator=(const PlanFlight&) = delete;

  /// Records that gradient `i` is marked in the current step.
  void mark(std::size_t i) { mark_in_step(i, step_.load(std::memory_order_relaxed)); }
  /// Records that gradient `i` is marked in step `step` (from 0). With device memory, gradients of
  /// a step may be marked while an earlier step is exchanged.
  void mark_in_step(std::size_t i, std::uint64_t step) {
    store_relaxed(marks_[i], static_cast<FlightMark>(step + 1));
  }
  /// The caller calls first() when the first gradient of `bucket` is marked, and complete() when
  /// the last gradient is marked. The functions record the time if `bucket` is timed.
  void first(std::size_t bucket) {
    if (is_timed(bucket)) stamp(times_[bucket].first);
  }
  void complete(std::size_t bucket) {
    if (is_timed(bucket)) stamp(times_[bucket].complete);
  }
  /// start() records that the exchange of `bucket` starts. finish() records that the exchange has
  /// finished. `is_on_own_thread` is whether the plan's own thread has run the exchange.
  void start(std::size_t bucket) {
    set_progress(static_cast<std::uint32_t>(bucket), true);
    if (is_timed(bucket)) stamp(times_[bucket].started);
  }
  void finish(std::size_t bucket, bool is_on_own_thread) {
    set_progress(static_cast<std::uint32_t>(bucket) + 1, false);
    if (is_timed(bucket)) record(bucket, is_on_own_thread);
  }
  /// Whether `bucket` is timed in the current step.
  bool is_timed(std::size_t bucket) const {
    return times_[bucket].is_always_timed || is_sampled_.load(std::memory_order_relaxed);
  }
  /// Records that the program waited for the thread of the plan, from `since` until now.
  void record_wait(std::int64_t since);
  /// Records that all buckets of the step are exchanged and that the hooks that end the step
  /// (plan::StepHook::end_exchange()) run next.
  void conclude() { set_progress(static_cast<std::uint32_t>(times_.size()), true); }
  /// Records that the step is complete.
  void end_step() {
    const std::uint64_t step = step_.load(std::memory_order_relaxed) + 1;
    step_.store(step, std::memory_order_relaxed);
    store_relaxed(entry_->progress, FlightProgress{step, 0, false}.packed());
    const std::uint32_t pulses = recorder_.pulses();
    const bool has_pulsed = pulses != seen_pulses_;
    if (!has_pulsed && !is_sampled_.load(std::memory_order_relaxed)) return;
    is_sampled_.store(has_pulsed, std::memory_order_relaxed);
    seen_pulses_ = pulses;
  }
  /// Records that the exchange has ended with an error.
  void give_up() noexcept { store_relaxed(entry_->is_given_up, std::uint32_t{1}); }
  /// Calls give_up() and then FlightRecorder::fail() with a text that names the plan and `bucket`.
  void fail(std::size_t bucket, std::string_view text) noexcept;

 private:
  struct Times {
    std::atomic<std::int64_t> first{0}, complete{0}, started{0};
    std::size_t bytes = 0;
    bool is_always_timed = false;
  };

  static void stamp(std::atomic<std::int64_t>& time) {
    time.store(flight_clock(), std::memory_order_relaxed);
  }
  void set_progress(std::uint32_t bucket, bool is_exchanging) {
    const std::uint64_t step = step_.load(std::memory_order_relaxed);
    store_relaxed(entry_->progress, FlightProgress{step, bucket, is_exchanging}.packed());
  }
  void register_plan(const PlanDescription& description);
  void record(std::size_t bucket, bool is_on_own_thread);

  FlightRecorder& recorder_;
  const std::string name_;
  FlightRecord pattern_{};  // template of this plan's records
  std::uint16_t wait_kind_ = 0;
  FlightPlanEntry own_entry_{};        // used if the plan has no entry in the table of plans
  std::vector<FlightMark> own_marks_;  // used if the plan has no entries in the table of marks
  FlightPlanEntry* entry_ = &own_entry_;
  FlightMark* marks_ = nullptr;
  std::atomic<std::uint64_t> step_{0};
  std::uint32_t seen_pulses_ = 0;
  std::atomic<bool> is_sampled_{true};
  std::vector<Times> times_;
};

}  // namespace horo::observe
