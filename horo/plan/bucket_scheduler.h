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

/// The communicator of a plan. During a tuning search that compares two algorithms, the plan also
/// has a spare communicator, which uses the other algorithm. No other plan or operation uses these
/// communicators, so the exchanges of the plan do not depend on the order of other operations. Used
/// by one thread at a time. All ranks must call swap() and drop_spare() between the same steps.
class PlanCommunicators {
 public:
  /// `waits` has the wait policies that both communicators use. `spare` may be null.
  PlanCommunicators(std::unique_ptr<coordinator::PlanWaits> waits,
                    std::unique_ptr<collectives::Communicator> current,
                    std::unique_ptr<collectives::Communicator> spare)
      : waits_(std::move(waits)), current_(std::move(current)), spare_(std::move(spare)) {}

  coordinator::PlanWaits& waits() { return *waits_; }
  collectives::Communicator& current() { return *current_; }

  /// Makes the spare communicator current, and the current communicator spare. Requires a spare
  /// communicator.
  void swap() { current_.swap(spare_); }
  /// Frees the spare communicator, if it exists.
  void drop_spare() {
    if (spare_ == nullptr) return;
    dropped_ += spare_->wire_report();
    spare_.reset();
  }
  /// Returns the sum of the reports of the current, the spare and the dropped communicator.
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

/// Exchanges the buckets of a plan, in the same order on every rank. The exchange of a bucket
/// starts after all its gradients are marked and the buckets before it are exchanged. Until wait()
/// is called, the scheduler's own thread exchanges the buckets. In wait(), the caller exchanges the
/// remaining buckets. The order of the buckets is fixed and the plan has its own communicator, so
/// the ranks do not negotiate which bucket is next.
///
/// Several threads may call mark() and hooks() at the same time. The caller must call all other
/// functions from one thread, while no thread calls mark().
class BucketScheduler {
 public:
  /// The plan on which the ranks have agreed, and the objects that exchange its buckets. If all
  /// gradients of a bucket are mapped and the bucket is not compressed, the bucket is exchanged
  /// with Collectives::allreduce_mapped(). mapped.addresses is empty if no gradient is mapped.
  /// `communicators` is the last member, so it is destroyed first. Until then, a collective that
  /// has failed may still access memory that other members own.
  struct Parts {
    std::vector<NamedTensor> gradients;
    MappedGradients mapped;
    BucketPlan plan;
    StepHooks hooks;
    std::unique_ptr<PlanCommunicators> communicators;
  };

  /// `topology` and `recorder` must outlive this object. `name` identifies the plan in the flight
  /// recorder. The thread that exchanges a bucket calls `count` after the exchange, and also if the
  /// step is skipped. Hooks may call `count` too.
  BucketScheduler(Parts parts, const Topology& topology, ReduceOp op, CountCollective count,
                  observe::FlightRecorder& recorder, std::string name, metrics::StepMeter meter);
  /// Ends the thread. If the thread waits for another rank in the exchange of a bucket, abandons
  /// that exchange. With HORO_ALGORITHM=mpi, the destructor waits for the other rank instead.
  ~BucketScheduler();

  /// Replaces the parts and clears the error and the marks. The caller must call this function
  /// between steps or after an error. All ranks must replace their parts after the same step.
  void replace(Parts parts);
  /// Packs the same gradients into other buckets, in `order`. The caller must call this function
  /// between steps. All ranks must call it after the same step with the same arguments. If the
  /// buckets change, no bucket may be compressed (CompressedPlan::repack()).
  void repack(std::span<const std::size_t> order, const BucketLimits& limits);

  const BucketPlan& plan() const { return parts_.plan; }
  /// Whether the bucket is exchanged with Collectives::allreduce_mapped() and the current
  /// collectives use the mapping.
  bool is_mapped(std::size_t bucket) const;
  StepHooks& hooks() { return parts_.hooks; }
  PlanCommunicators& communicators() { return *parts_.communicators; }
  const GradientMarks& marks() const { return marks_; }

  /// Marks a gradient. Returns false if the gradient was already marked in this pass. Thread-safe.
  bool mark(std::size_t gradient);
  /// Marks all gradients that are not marked in this pass. The caller must call wait() or, if the
  /// step is held, end_pass() next.
  void mark_all();
  /// While the step is held, marks are recorded, but no bucket is exchanged. The caller must call
  /// set_held() while no gradient is marked in the current pass.
  void set_held(bool is_held);
  bool is_held() const { return is_held_; }
  /// Ends a pass of a held step without an exchange.
  void end_pass();

  /// Ends the step: exchanges the remaining buckets and calls end_exchange() and end_step() of the
  /// hooks. All gradients must be marked in the current pass. The result is valid until the next
  /// call of wait(). Rethrows the error of the exchange, also in later calls until replace().
  const StepReport& wait();
  /// Returns whether an exchange has failed since construction or the latest replace(). If a bucket
  /// is in flight, first waits until its exchange has ended.
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
  StepReport report_;     // of the latest complete step

  // A thread holds run_mutex_ while it exchanges a bucket. While thread_ runs, run_mutex_ guards
  // the members from next_report_ to error_, except meter_.rank_meter(), which does not change.
  // Only the thread that holds run_mutex_ increments next_.
  mutable std::mutex run_mutex_;
  StepReport next_report_;            // the report of the current step
  std::optional<StepExchange> step_;  // the current step, from its first bucket on
  metrics::StepMeter meter_;
  std::uint64_t wire_bytes_ = 0;  // wire_report().bytes_sent at the latest take_wire_bytes()
  std::exception_ptr error_;
  std::atomic<std::size_t> next_{0};  // the bucket to exchange next
  std::atomic<bool> caller_waits_{false};

  // thread_ holds sleep_mutex_ while it checks whether it may sleep, so no notification is lost.
  // mark() locks sleep_mutex_ only if is_asleep_ is set and bucket next_ has become complete. No
  // thread holds sleep_mutex_ and run_mutex_ at the same time.
  std::mutex sleep_mutex_;
  std::condition_variable wake_;
  std::atomic<bool> is_asleep_{false};
  std::atomic<bool> should_stop_{false};
  std::jthread thread_;
};

}  // namespace horo::plan
