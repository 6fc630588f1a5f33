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

/// The communicator of a plan. While tuning compares two algorithms, the plan also has a spare
/// communicator. No other plan or operation uses these communicators, so the exchanges of the plan
/// do not depend on the order of other operations. Used by one thread at a time. All ranks must
/// call swap() and drop_spare() between the same steps. These functions send no messages.
class PlanCommunicators {
 public:
  /// `waits` has the wait policies of both communicators. `spare` may be null.
  PlanCommunicators(std::unique_ptr<coordinator::PlanWaits> waits,
                    std::unique_ptr<collectives::Communicator> current,
                    std::unique_ptr<collectives::Communicator> spare)
      : waits_(std::move(waits)), current_(std::move(current)), spare_(std::move(spare)) {}

  coordinator::PlanWaits& waits() { return *waits_; }
  collectives::Communicator& current() { return *current_; }

  /// Makes the spare communicator current, and the current communicator spare.
  void swap() { current_.swap(spare_); }
  /// Frees the spare communicator, if it exists.
  void drop_spare() {
    if (spare_ == nullptr) return;
    dropped_ += spare_->wire_report();
    spare_.reset();
  }
  /// Returns the sum of the reports of all communicators of the plan, including dropped
  /// communicators.
  WireReport wire_report() const {
    WireReport report = dropped_;
    if (spare_ != nullptr) report += spare_->wire_report();
    return report += current_->wire_report();
  }

 private:
  std::unique_ptr<coordinator::PlanWaits> waits_;  // must outlive the communicators
  std::unique_ptr<collectives::Communicator> current_;
  std::unique_ptr<collectives::Communicator> spare_;
  WireReport dropped_;
};

/// Exchanges the buckets of a plan. Every rank exchanges them in plan order. A bucket is exchanged
/// when all its gradients are marked and the buckets before it are exchanged. While the caller
/// computes, the scheduler's own thread exchanges the buckets. In wait(), the caller exchanges
/// them. The order is fixed and each plan has its own communicator, so no control messages are
/// sent.
///
/// Several threads may call mark() at the same time. The caller must call all other functions from
/// one thread, while no thread calls mark().
class BucketScheduler {
 public:
  /// The plan on which the ranks have agreed, and the objects that exchange its buckets. If all
  /// gradients of a bucket are mapped and the bucket is not compressed, the ranks of a node
  /// exchange the bucket in place, provided that the algorithm supports this. `mapped` may be
  /// empty. `communicators` is the last member and is destroyed first, because the communicators
  /// may refer to all other members.
  struct Parts {
    std::vector<NamedTensor> gradients;
    MappedGradients mapped;
    BucketPlan plan;
    StepHooks hooks;
    std::unique_ptr<PlanCommunicators> communicators;
  };

  /// `topology` and `recorder` must outlive this object. `name` identifies the plan in the flight
  /// recorder. After each bucket, the thread that has exchanged the bucket calls `count`. Hooks may
  /// call `count` too.
  BucketScheduler(Parts parts, const Topology& topology, ReduceOp op, CountCollective count,
                  observe::FlightRecorder& recorder, std::string name, metrics::StepMeter meter);
  /// Ends the thread. If the exchange of a bucket is in flight and waits for another rank, abandons
  /// the exchange.
  ~BucketScheduler();

  /// Replaces the parts and clears the error. The caller must call this function between steps or
  /// after an error.
  void replace(Parts parts);
  /// Packs the same gradients into other buckets, in `order`. The caller must call this function
  /// between steps.
  void repack(std::span<const std::size_t> order, const BucketLimits& limits);

  const BucketPlan& plan() const { return parts_.plan; }
  bool is_mapped(std::size_t bucket) const;
  StepHooks& hooks() { return parts_.hooks; }
  PlanCommunicators& communicators() { return *parts_.communicators; }
  const GradientMarks& marks() const { return marks_; }

  /// Marks a gradient. Returns false if the gradient was already marked in this pass. Thread-safe.
  bool mark(std::size_t gradient);
  /// Marks all unmarked gradients. Does not wake the thread, because wait() exchanges the remaining
  /// buckets.
  void mark_all();
  /// While the step is held, marks are recorded, but no bucket is exchanged. The caller must call
  /// set_held() between passes.
  void set_held(bool is_held);
  bool is_held() const { return is_held_; }
  /// Ends a pass of a held step.
  void end_pass();

  /// Ends the step: exchanges the remaining buckets and runs the hooks. All gradients must be
  /// marked. The result is valid until the next call of wait(). Rethrows the error of the exchange,
  /// also in later calls until replace().
  const StepReport& wait();
  /// Returns whether an exchange has failed. First waits until no bucket is in flight.
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
  std::vector<StepHook*> hooks_;  // the result of parts_.hooks.in_order()
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::optional<observe::PlanFlight> flight_;
  GradientMarks marks_;
  bool is_held_ = false;  // changes only between passes, so mark() reads it without a lock
  StepReport report_;     // of the latest step

  // A thread holds run_mutex_ while it exchanges a bucket. run_mutex_ guards the members from
  // next_report_ to error_. Only the thread that holds run_mutex_ advances next_.
  mutable std::mutex run_mutex_;
  StepReport next_report_;            // the report of the current step
  std::optional<StepExchange> step_;  // the current step, from its first bucket on
  metrics::StepMeter meter_;
  std::uint64_t wire_bytes_ = 0;  // wire_report().bytes_sent before this step
  std::exception_ptr error_;
  std::atomic<std::size_t> next_{0};  // the bucket to exchange next
  std::atomic<bool> caller_waits_{false};

  // The thread holds sleep_mutex_ while it checks whether it may sleep, so no notification is lost.
  // mark() locks sleep_mutex_ only if the thread is asleep and the next bucket has become complete.
  // No thread holds sleep_mutex_ and run_mutex_ at the same time.
  std::mutex sleep_mutex_;
  std::condition_variable wake_;
  std::atomic<bool> is_asleep_{false};
  std::atomic<bool> should_stop_{false};
  std::jthread thread_;
};

}  // namespace horo::plan
