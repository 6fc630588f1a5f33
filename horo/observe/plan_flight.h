#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"
#include "horo/observe/flight_recorder.h"

namespace horo::observe {

/// What a recorder is told of a plan when it is made.
struct PlanDescription {
  std::string name;
  std::string process_set;             ///< empty: all ranks
  std::vector<std::string> gradients;  ///< their names
  std::vector<std::size_t> bucket_of;  ///< bucket_of[i]: the bucket of gradient i
  std::vector<std::size_t> bytes_of;   ///< bytes_of[b]: of bucket b
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kAverage;
};

/// The writing side of a plan: which gradients are marked and how far it is, always; the times of
/// its buckets, of each one of kAlwaysTimed bytes or more, of the others in the first step after
/// each pulse. So a small bucket costs no reading of the clock, only a few plain stores.
///
/// mark(), first() and complete() may be called from several threads, the others from one at a
/// time.
class PlanFlight {
 public:
  static constexpr std::size_t kAlwaysTimed = 128 * 1024;

  /// `recorder` outlives this.
  PlanFlight(FlightRecorder& recorder, const PlanDescription& description);
  ~PlanFlight();
  PlanFlight(const PlanFlight&) = delete;
  PlanFlight& operator=(const PlanFlight&) = delete;

  /// Gradient `i` is final for this step.
  void mark(std::size_t i) { mark_in_step(i, step_.load(std::memory_order_relaxed)); }
  /// The same of step `step`, from 0: one whose gradients come while an earlier one is exchanged.
  void mark_in_step(std::size_t i, std::uint64_t step) {
    publish(marks_[i], static_cast<FlightMark>(step + 1));
  }
  /// It was the first, or the last, of its bucket.
  void first(std::size_t bucket) {
    if (is_timed(bucket)) note(times_[bucket].first);
  }
  void complete(std::size_t bucket) {
    if (is_timed(bucket)) note(times_[bucket].complete);
  }
  /// The exchange of the next bucket begins, and ends.
  void start(std::size_t bucket) {
    set_progress(static_cast<std::uint32_t>(bucket), true);
    if (is_timed(bucket)) note(times_[bucket].started);
  }
  void finish(std::size_t bucket, bool is_on_own_thread) {
    set_progress(static_cast<std::uint32_t>(bucket) + 1, false);
    if (is_timed(bucket)) record(bucket, is_on_own_thread);
  }
  /// Whether the times of `bucket` are recorded in this step. Thread-safe.
  bool is_timed(std::size_t bucket) const {
    return times_[bucket].is_always_timed || is_sampled_.load(std::memory_order_relaxed);
  }
  /// Since `since` the program has waited for the plan's own thread to end an exchange.
  void record_wait(std::int64_t since);
  /// All buckets are exchanged, and the ranks agree on what they make of them.
  void conclude() { set_progress(static_cast<std::uint32_t>(times_.size()), true); }
  /// The step is complete.
  void end_step() {
    const std::uint64_t step = step_.load(std::memory_order_relaxed) + 1;
    step_.store(step, std::memory_order_relaxed);
    publish(entry_->progress, FlightProgress{step, 0, false}.packed());
    const std::uint32_t pulses = recorder_.pulses();
    const bool has_pulsed = pulses != seen_pulses_;
    if (!has_pulsed && !is_sampled_.load(std::memory_order_relaxed)) return;
    is_sampled_.store(has_pulsed, std::memory_order_relaxed);
    seen_pulses_ = pulses;
  }
  /// The exchange has ended with an error, and the plan does not go on.
  void give_up() noexcept { publish(entry_->is_given_up, std::uint32_t{1}); }
  /// The same, and neither does the rank.
  void fail(std::size_t bucket, std::string_view text) noexcept;

 private:
  struct Times {
    std::atomic<std::int64_t> first{0}, complete{0}, started{0};
    std::size_t bytes = 0;
    bool is_always_timed = false;
  };

  static void note(std::atomic<std::int64_t>& time) {
    time.store(flight_clock(), std::memory_order_relaxed);
  }
  void set_progress(std::uint32_t bucket, bool is_exchanging) {
    const std::uint64_t step = step_.load(std::memory_order_relaxed);
    publish(entry_->progress, FlightProgress{step, bucket, is_exchanging}.packed());
  }
  void enter(const PlanDescription& description);
  void record(std::size_t bucket, bool is_on_own_thread);

  FlightRecorder& recorder_;
  const std::string name_;
  FlightRecord pattern_{};  // of this plan's records
  std::uint16_t wait_kind_ = 0;
  FlightPlanEntry own_entry_{};        // if the table of plans is full
  std::vector<FlightMark> own_marks_;  // if that of gradients is
  FlightPlanEntry* entry_ = &own_entry_;
  FlightMark* marks_ = nullptr;
  std::atomic<std::uint64_t> step_{0};
  std::uint32_t seen_pulses_ = 0;
  std::atomic<bool> is_sampled_{true};
  std::vector<Times> times_;
};

}  // namespace horo::observe
