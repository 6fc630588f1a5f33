#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/buffers.h"
#include "collectives/communicator.h"
#include "horo/base/reduce_op.h"
#include "horo/base/step_report.h"
#include "horo/base/topology.h"
#include "horo/coordinator/plan_waits.h"
#include "horo/flight_recorder/plan_flight.h"
#include "horo/metrics/step_meter.h"
#include "horo/plan/bucket_plan.h"
#include "horo/plan/gradient_marks.h"
#include "horo/plan/mapped_gradients.h"
#include "horo/plan/step_hooks.h"

namespace horo::plan {

/// The communicator of a plan and, while tuning compares two algorithms, a spare one. Each plan has
/// its own, so its exchanges do not depend on the order of other operations. Used by one thread at
/// a time. All ranks make the same changes between the same steps; a change sends no message.
class PlanCommunicators {
 public:
  /// `waits`: the wait policies of both communicators. `spare` may be null.
  PlanCommunicators(std::unique_ptr<coordinator::PlanWaits> waits,
                    std::unique_ptr<collectives::Communicator> current,
                    std::unique_ptr<collectives::Communicator> spare)
      : waits_(std::move(waits)), current_(std::move(current)), spare_(std::move(spare)) {}

  coordinator::PlanWaits& waits() { return *waits_; }
  collectives::Communicator& current() { return *current_; }

  /// Exchanges the current communicator and the spare one.
  void swap() { current_.swap(spare_); }
  /// Frees the spare communicator, if there is one.
  void drop_spare() {
    if (spare_ == nullptr) return;
    dropped_ += spare_->wire_report();
    spare_.reset();
  }
  /// The sum over all communicators of the plan, dropped ones included.
  WireReport wire_report() const {
    WireReport report = dropped_;
    if (spare_ != nullptr) report += spare_->wire_report();
    return report += current_->wire_report();
  }

 private:
  std::unique_ptr<coordinator::PlanWaits> waits_;  // outlives the communicators
  std::unique_ptr<collectives::Communicator> current_;
  std::unique_ptr<collectives::Communicator> spare_;
  WireReport dropped_;
};

/// Exchanges the buckets of a plan. Every rank exchanges them in plan order. A bucket is exchanged
/// when all its gradients are marked and the buckets before it are exchanged. While the caller
/// computes, the scheduler's own thread does this; in wait(), the caller does. The order is fixed
/// and each plan has its own communicator, so no control messages are sent.
///
/// mark() may be called from several threads at the same time. One thread calls all other
/// functions, while no thread marks.
class BucketScheduler {
 public:
  /// The plan on which the ranks have agreed, and the objects that exchange it. A bucket whose
  /// gradients are all mapped is exchanged in place, unless it is compressed. `mapped` may be
  /// empty. `communicators` is destroyed first, because it may refer to all other members.
  struct Parts {
    std::vector<NamedTensor> gradients;
    MappedGradients mapped;
    BucketPlan plan;
    StepHooks hooks;
    std::unique_ptr<PlanCommunicators> communicators;
  };

  /// `topology` and `recorder` outlive this object. `name` identifies the plan in the flight
  /// recorder. `count` is called after each bucket, on the thread that has exchanged it.
  BucketScheduler(Parts parts, const Topology& topology, ReduceOp op, CountCollective count,
                  observe::FlightRecorder& recorder, std::string name, metrics::StepMeter meter);
  /// Ends the thread. Abandons a bucket that is in flight if it has to wait for another rank.
  ~BucketScheduler();

  /// Replaces the parts. Called between steps, or after an error, which it clears.
  void replace(Parts parts);
  /// Packs the same gradients into other buckets, in `order`. Called between steps.
  void repack(std::span<const std::size_t> order, const BucketLimits& limits);

  const BucketPlan& plan() const { return parts_.plan; }
  bool is_mapped(std::size_t bucket) const;
  StepHooks& hooks() { return parts_.hooks; }
  PlanCommunicators& communicators() { return *parts_.communicators; }
  const GradientMarks& marks() const { return marks_; }

  /// Marks a gradient. Returns false if it was already marked in this pass. Thread-safe.
  bool mark(std::size_t gradient);
  /// Marks all unmarked gradients. Does not wake the thread; wait() exchanges their buckets.
  void mark_all();
  /// While the step is held, marks are recorded and no bucket is exchanged. Called between passes.
  void set_held(bool is_held);
  bool is_held() const { return is_held_; }
  /// Ends a pass of a held step.
  void end_pass();

  /// Ends the step, in which all gradients are marked: exchanges the remaining buckets and runs the
  /// hooks. The result is valid until the next call. Rethrows the error of the exchange, also in
  /// later calls.
  const StepReport& wait();
  /// Whether the exchange has failed. Waits until no bucket is in flight.
  bool has_failed() const;

 private:
  struct Bucket {
    explicit Bucket(DataType type) : buffer(type) {}
    collectives::ScatteredBuffer buffer;
    std::optional<collectives::MappedBuffer> mapped;
    bool is_compressed = false;
    std::size_t tensors = 0;
    std::atomic<std::size_t> missing{0};
  };

  void make_buckets();
  std::optional<collectives::MappedBuffer> map_bucket(
      const std::vector<std::size_t>& members) const;
  void reset_buckets();

  void start_thread();
  void stop_thread();
  void run_thread(const std::string& log_label);
  void await_own_thread(std::unique_lock<std::mutex>& lock);

  bool is_next_complete() const;
  void run_next(bool is_on_own_thread);
  void begin_exchange();
  void exchange(std::size_t index);
  void finish_exchange();
  template <typename Work>
  void record_errors(std::size_t bucket, const Work& work);
  std::optional<std::uint64_t> take_wire_bytes();

  Parts parts_;
  const Topology& topology_;
  ReduceOp op_;
  const CountCollective count_;
  observe::FlightRecorder& recorder_;
  const std::string name_;
  std::vector<StepHook*> hooks_;  // parts_.hooks in order
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::optional<observe::PlanFlight> flight_;
  GradientMarks marks_;
  bool is_held_ = false;  // changes only between passes, so mark() reads it without a lock
  StepReport report_;     // of the latest step

  // Held while a bucket is exchanged. Guards the members up to error_. Only its holder advances
  // next_.
  mutable std::mutex run_mutex_;
  StepReport next_report_;            // of the current step
  std::optional<StepExchange> step_;  // the current step, from its first bucket on
  metrics::StepMeter meter_;
  std::uint64_t wire_bytes_ = 0;  // bytes of the wire type that were sent before this step
  std::exception_ptr error_;
  std::atomic<std::size_t> next_{0};  // the bucket to exchange next
  std::atomic<bool> caller_waits_{false};

  // The thread holds it while it checks whether it may sleep, so no notification is lost. mark()
  // takes it only if the thread is asleep and the next bucket has become complete. Never held
  // together with run_mutex_.
  std::mutex sleep_mutex_;
  std::condition_variable wake_;
  std::atomic<bool> is_asleep_{false};
  std::atomic<bool> should_stop_{false};
  std::jthread thread_;
};

}  // namespace horo::plan
