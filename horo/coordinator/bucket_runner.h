#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/mapped_buffer.h"
#include "collectives/scattered_buffer.h"
#include "horo/base/reduce_op.h"
#include "horo/coordinator/bucket_plan.h"
#include "horo/coordinator/compressed_plan.h"
#include "horo/coordinator/mapped_gradients.h"
#include "horo/coordinator/plan_waits.h"
#include "horo/coordinator/step_treatment.h"
#include "horo/metrics/step_meter.h"
#include "horo/observe/plan_flight.h"

namespace horo::coordinator {

/// Exchanges the buckets of a plan, one after the other in plan order on every rank, each as soon
/// as it is complete: on a thread of its own while the caller computes, and on the caller's thread
/// once it waits. Since the order is fixed and each plan has its own communicator, ranks need not
/// talk about what to do next.
class BucketRunner {
 public:
  /// Called after each bucket with its bytes and tensors, from whichever thread ran it.
  using OnBucket = std::function<void(std::size_t bytes, std::size_t tensors)>;

  /// What the ranks have agreed on. `waits` holds the communicators' wait policies; the runner
  /// adjusts them to whether a caller waits. A bucket whose gradients are all mapped (none is, if
  /// `mapped` is empty) is exchanged in place, unless `compressed` covers it. `treatment` is null
  /// for a plan that only exchanges. `spare`: null, or a communicator that it may change to.
  struct Parts {
    std::vector<NamedTensor> gradients;
    MappedGradients mapped;
    BucketPlan plan;
    CompressedPlan compressed;
    std::unique_ptr<StepTreatment> treatment;
    std::unique_ptr<PlanWaits> waits;
    std::unique_ptr<collectives::Communicator> communicator;
    std::unique_ptr<collectives::Communicator> spare;
  };
  /// Called before the first bucket of a step, from whichever thread runs that, with the plan's own
  /// collectives. What it throws is an error of the step.
  using Prelude = std::function<void(collectives::Collectives&)>;

  /// `recorder` outlives this; it knows the plan by `name` and `process_set` (empty: all ranks).
  BucketRunner(Parts parts, int local_rank, ReduceOp op, OnBucket on_bucket,
               observe::FlightRecorder& recorder, std::string name, std::string process_set,
               metrics::StepMeter meter);
  /// Ends the thread. A bucket that it is exchanging is given up, if it has to wait for a peer.
  ~BucketRunner();

  /// Goes on with other parts. Between steps, or after an error, which is forgotten.
  void replace(Parts parts);
  /// Goes on with the same gradients in other buckets. Between steps.
  void repack(BucketPlan plan, CompressedPlan compressed);
  /// Goes on with the same buckets over the spare communicator; that in use becomes the spare.
  /// Between steps, the same on all ranks. No message.
  void swap_communicators() { parts_.communicator.swap(parts_.spare); }
  /// Frees the spare communicator, if there is one. Between steps.
  void drop_spare();
  /// Between steps; null: none.
  void set_prelude(Prelude prelude) { prelude_ = std::move(prelude); }

  const BucketPlan& plan() const { return parts_.plan; }
  bool is_mapped(std::size_t bucket) const {
    return buckets_[bucket]->mapped && parts_.communicator->collectives().uses_mapped_buffers();
  }
  /// Between steps: after wait(), before the first mark().
  CompressedPlan& compressed() { return parts_.compressed; }
  /// May be null.
  StepTreatment* treatment() { return parts_.treatment.get(); }
  /// Between steps.
  collectives::Communicator& communicator() { return *parts_.communicator; }
  WireReport wire_report() const;
  std::size_t gradient_count() const { return marks_.size(); }

  /// Marks a gradient. Returns false if it was marked already. Thread-safe.
  bool mark(std::size_t gradient);
  /// Marks all gradients that are not, without waking the thread: wait() follows.
  void mark_all();
  /// The gradients not marked in this pass. Thread-safe.
  std::vector<std::size_t> unmarked() const;

  /// While the step is held, marks are noted and no bucket is complete. Between passes.
  void set_held(bool is_held);
  bool is_held() const { return is_held_; }
  /// Ends a pass of a held step: what was marked in it is remembered until the step ends.
  void end_pass();
  bool are_all_marked() const;
  bool is_any_marked() const;
  bool is_any_touched() const;
  /// Whether a gradient was marked in an earlier pass of this step.
  bool was_touched(std::size_t gradient) const {
    return !was_touched_.empty() && was_touched_[gradient] != 0;
  }
  /// Sets a gradient to zero in this rank's memory; mark() follows.
  void set_unused(std::size_t gradient);

  /// Requires that all are marked. Runs what is left and prepares the next step. Rethrows the error
  /// of the exchange, also in later calls.
  void wait();
  /// Of the latest step; after wait().
  const StepReport& report() const { return report_; }
  bool has_failed() const;

 private:
  struct Bucket {
    explicit Bucket(DataType type) : buffer(type) {}
    collectives::ScatteredBuffer buffer;
    std::optional<collectives::MappedBuffer> mapped;
    std::size_t tensors = 0;
    std::atomic<std::size_t> missing{0};
  };

  void make_buckets();
  // Empty unless all members are mapped.
  std::optional<collectives::MappedBuffer> map_bucket(
      const std::vector<std::size_t>& members) const;
  void start_thread();
  void stop_thread();
  void run_thread(const std::string& log_label);
  bool is_next_complete() const;
  void run_next(bool is_on_own_thread);
  void await_own_thread(std::unique_lock<std::mutex>& lock);
  void exchange(const Bucket& bucket, ReduceOp op);
  void exchange_treated(const Bucket& bucket);
  collectives::Collectives& collectives() { return parts_.communicator->collectives(); }
  void finish_step();
  // Whether no rank has data for this step; once its exchange has begun.
  bool is_skipped() const { return parts_.treatment != nullptr && parts_.treatment->is_skipped(); }
  void prepare_step();
  std::optional<std::uint64_t> take_wire_bytes();

  Parts parts_;
  Prelude prelude_;
  WireReport former_wire_;  // of the communicators before
  int local_rank_;
  ReduceOp op_;
  OnBucket on_bucket_;
  observe::FlightRecorder& recorder_;
  const std::string name_, process_set_;
  std::optional<observe::PlanFlight> flight_;
  metrics::StepMeter meter_;          // by run_mutex_
  std::uint64_t narrowed_bytes_ = 0;  // of the steps before, that went as the wire type
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::vector<std::atomic<bool>> marks_;
  mutable std::mutex marks_mutex_;         // guards the place of marks_ against unmarked()
  std::vector<std::uint8_t> was_touched_;  // empty until a pass ends before the step does
  bool is_held_ = false;
  StepReport report_;

  mutable std::mutex
      run_mutex_;  // held while a bucket is exchanged; guards next_ (writes) and error_
  std::atomic<std::size_t> next_{0};
  std::exception_ptr error_;
  std::atomic<bool> caller_waits_{false};

  std::mutex sleep_mutex_;  // guards the sleep of the thread
  std::condition_variable wake_;
  std::atomic<bool> is_asleep_{false};
  std::atomic<bool> should_stop_{false};
  std::jthread thread_;
};

}  // namespace horo::coordinator
