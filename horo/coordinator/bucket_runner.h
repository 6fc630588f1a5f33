#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
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
#include "horo/observe/exchange_progress.h"

namespace horo::coordinator {

/// Exchanges the buckets of a plan, one after the other in plan order on every rank, each as soon
/// as it is complete: on a thread of its own while the caller computes, and on the caller's thread
/// once it waits. Since the order is fixed and each plan has its own communicator, ranks need not
/// talk about what to do next.
class BucketRunner {
 public:
  /// Called after each bucket with its bytes and tensors, from whichever thread ran it.
  using OnBucket = std::function<void(std::size_t bytes, std::size_t tensors)>;

  /// `waits` holds the wait policies of `communicator`; the runner adjusts them to whether a caller
  /// waits. A bucket whose gradients are all mapped (none is, if `mapped` is empty) is exchanged in
  /// place, unless `compressed` covers it.
  BucketRunner(std::span<const NamedTensor> gradients, MappedGradients mapped, int local_rank,
               BucketPlan plan, CompressedPlan compressed, ReduceOp op,
               std::unique_ptr<PlanWaits> waits,
               std::unique_ptr<collectives::Communicator> communicator, OnBucket on_bucket);
  /// Ends the thread. A bucket that it is exchanging is given up, if it has to wait for a peer.
  ~BucketRunner();

  const BucketPlan& plan() const { return plan_; }
  bool is_mapped(std::size_t bucket) const { return buckets_[bucket]->mapped.has_value(); }
  /// Between steps: after wait(), before the first mark().
  CompressedPlan& compressed() { return compressed_; }
  WireReport wire_report() const { return communicator_->wire_report(); }
  observe::ExchangeProgress& progress() { return progress_; }
  std::size_t gradient_count() const { return marks_.size(); }

  /// Marks a gradient. Returns false if it was marked already. Thread-safe.
  bool mark(std::size_t gradient);
  /// Marks all gradients that are not, without waking the thread: wait() follows.
  void mark_all();
  /// The gradients not marked in this step.
  std::vector<std::size_t> unmarked() const;
  /// Requires that all are marked. Runs what is left and prepares the next step. Rethrows the error
  /// of the exchange, also in later calls.
  void wait();

 private:
  struct Bucket {
    explicit Bucket(DataType type) : buffer(type) {}
    collectives::ScatteredBuffer buffer;
    std::optional<collectives::MappedBuffer> mapped;
    std::size_t tensors = 0;
    std::atomic<std::size_t> missing{0};
  };

  // Empty unless all members are mapped.
  std::optional<collectives::MappedBuffer> map_bucket(const std::vector<std::size_t>& members,
                                                      std::span<const NamedTensor> gradients,
                                                      int local_rank) const;
  void run_thread(const std::string& log_label);
  bool is_next_complete() const;
  void run_next();

  MappedGradients mapped_;
  BucketPlan plan_;
  CompressedPlan compressed_;
  ReduceOp op_;
  std::unique_ptr<PlanWaits> waits_;
  std::unique_ptr<collectives::Communicator> communicator_;
  OnBucket on_bucket_;
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::vector<std::atomic<bool>> marks_;
  observe::ExchangeProgress progress_;

  std::mutex run_mutex_;  // held while a bucket is exchanged; guards next_ (writes) and error_
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
