#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "horo/base/reduce_op.h"
#include "horo/base/step_report.h"
#include "horo/base/topology.h"
#include "horo/flight_recorder/plan_flight.h"
#include "horo/metrics/step_meter.h"
#include "horo/plan/bucket_plan.h"
#include "horo/plan/device/device_plan_exchange.h"
#include "horo/plan/gradients/gradient_marks.h"
#include "horo/plan/plan_communicators.h"
#include "horo/plan/plan_exchange.h"
#include "horo/plan/step_hooks.h"

namespace horo::plan {

/// Exchanges the buckets of a plan, in the same order on every rank. The exchange of a bucket
/// starts after all its gradients are marked and the buckets before it are exchanged. Until the
/// caller ends the step, the scheduler's own thread exchanges the buckets. The caller then
/// exchanges the remaining buckets. The order of the buckets is fixed and the plan has its own
/// communicator, so the ranks do not negotiate which bucket is next.
///
/// If the gradients are in device memory, "exchanges" means "enqueues the exchange". The thread
/// also polls the exchanges in flight, for errors, timeouts and the flight recorder.
///
/// Several threads may call mark() and hooks() at the same time. check() is thread-safe. The caller
/// must call all other functions from one thread, while no thread calls mark().
class BucketScheduler : private DevicePlanExchange::Progress {
 public:
  /// The plan on which the ranks have agreed, and the objects that exchange its buckets.
  /// `communicators` is the last member, so it is destroyed first. Until then, a collective that
  /// has failed may still access memory that other members own.
  struct Parts {
    std::vector<NamedTensor> gradients;
    BucketPlan plan;
    StepHooks hooks;
    std::unique_ptr<PlanExchange> exchange;  ///< must use `plan`
    std::unique_ptr<PlanCommunicators> communicators;
  };
  /// What the scheduler calls while it holds run_mutex_.
  struct Callbacks {
    /// After the exchange of a bucket, and also if the step is skipped. Hooks may call it too.
    CountCollective count;
    /// After the exchange of a step.
    std::function<void()> end_step;
  };

  /// `topology` and `recorder` must outlive this object. `name` identifies the plan in the flight
  /// recorder.
  BucketScheduler(Parts parts, const Topology& topology, ReduceOp op, Callbacks callbacks,
                  observe::FlightRecorder& recorder, std::string name, metrics::StepMeter meter);
  /// Ends the thread. In host memory, abandons the exchange of a bucket that waits for another
  /// rank. With HORO_ALGORITHM=mpi, waits for the other rank instead. In device memory, waits until
  /// the exchanges of the complete steps have ended or the plan has failed.
  ~BucketScheduler() override;

  /// Replaces the parts and clears the error and the marks. The caller must call this function
  /// between steps or after an error. All ranks must replace their parts after the same step. No
  /// captured step may exist.
  void replace(Parts parts);
  /// Packs the same gradients into other buckets, in `order`. The caller must call this function
  /// between steps. All ranks must call it after the same step with the same arguments. If the
  /// buckets change, no bucket may be compressed (CompressedPlan::repack()). Collective in device
  /// memory. `is_forced`: also lays the buckets out again if they stay the same.
  void repack(std::span<const std::size_t> order, const BucketLimits& limits,
              bool is_forced = false);

  const BucketPlan& plan() const { return parts_.plan; }
  PlanExchange& exchange() { return *parts_.exchange; }
  StepHooks& hooks() { return parts_.hooks; }
  PlanCommunicators& communicators() { return *parts_.communicators; }
  const GradientMarks& marks() const { return marks_; }

  /// Marks a gradient, in device memory with the stream whose work computes it. Returns false if
  /// the gradient was already marked in this pass. Thread-safe. In device memory, throws the error
  /// of the exchange, and InvalidArgument if the stream is in a capture that capture() did not
  /// begin.
  bool mark(std::size_t gradient, void* stream = nullptr);
  /// Marks all gradients that are not marked in this pass. In device memory, their streams must
  /// have been marked before (PlanExchange::set_zero(), earlier passes). The caller must end the
  /// step or, if the step is held, call end_pass() next.
  void mark_all();
  /// While the step is held, marks are recorded, but no bucket is exchanged. The caller must call
  /// set_held() while no gradient is marked in the current pass.
  void set_held(bool is_held);
  bool is_held() const { return is_held_; }
  /// Ends a pass of a held step without an exchange.
  void end_pass();

  /// Ends the step: exchanges the remaining buckets and calls the hooks. All gradients must be
  /// marked in the step. Blocks until the gradients are reduced. The result is valid until the next
  /// step ends. Rethrows the error of the exchange, also in later calls until replace().
  const StepReport& wait();
  /// The same for device memory, without waiting for the device: later work on `stream` starts
  /// after the gradients are reduced. Also ends a step that is being captured.
  void wait_on(void* stream);
  /// Returns the report of the latest step. In device memory, first waits until the device has run
  /// the step. Collective, if check_finite is set and a value is not finite.
  const StepReport& report();
  /// Throws the error of the exchange if it has already failed. Does not block.
  void check();
  /// Waits until no exchange is in flight or the exchange has failed.
  void drain();
  /// Returns whether an exchange has failed since construction or the latest replace(). If a bucket
  /// of host memory is in flight, first waits until its exchange has ended.
  bool has_failed() const;

  /// Captures the work that `step` enqueues on `stream` and on streams that join the capture (see
  /// Device::capture()). The device runs the work only at launch(). `step` must mark all gradients
  /// and then call wait_on(). The threads that call mark() add the exchanges to the graph, in plan
  /// order. All ranks must call capture() after the same step. The result must not outlive this
  /// object.
  ///
  /// Throws InvalidArgument if gradients are already marked, if `step` does not call wait_on(), or
  /// if a step of this plan cannot be captured. Rethrows exceptions of `step`. Throws DeviceError
  /// if the work cannot be captured. The plan remains usable after these errors. Also throws the
  /// error of the exchange. The plan then exchanges nothing more.
  std::unique_ptr<CapturedStep> capture(void* stream, const std::function<void()>& step);
  /// Enqueues a captured step. First waits until the step before the previous one has ended. Throws
  /// InvalidArgument if gradients are marked or if the stream of `step` is being captured. Throws
  /// the error of the exchange, if there is one.
  void launch(CapturedStep& step);
  /// Waits until the device has run all launches of `step` so far. Throws the error of the
  /// exchange, if there is one.
  void wait(const CapturedStep& step);
  /// Waits until the thread no longer uses the events of `step`. The caller may then destroy
  /// `step`.
  void release(const CapturedStep& step) noexcept;
  /// The number of captured steps that are not released.
  std::size_t captured_steps() const { return captured_steps_; }

 private:
  struct Bucket {
    std::size_t tensors = 0;
    std::size_t bytes = 0;
    std::atomic<std::size_t> missing{0};
  };
  enum class Capture { kNone, kMarking, kEnded };

  // The interval at which the thread polls exchanges in device memory. The device has no call that
  // waits for either an event or new work.
  static constexpr std::chrono::microseconds kPollInterval{100};

  void make_buckets();
  void reset_buckets();

  void start_thread();
  void stop_thread();
  void run_thread(const std::string& log_label);
  void finish_in_flight();
  bool poll();
  bool has_in_flight() const { return device_ != nullptr && device_->is_in_flight(); }
  void wake();
  std::unique_lock<std::mutex> lock_as_caller();
  void await_own_thread(std::unique_lock<std::mutex>& lock);

  bool is_next_complete() const;
  void mark_on_device(std::size_t gradient, void* stream);
  void mark_in_capture(std::size_t bucket);
  void run_next(bool is_on_own_thread);
  void begin_exchange();
  void exchange_bucket(std::size_t index, bool is_on_own_thread);
  void finish_exchange();
  StepExchange exchange_of(StepReport& report);
  void close_step(const metrics::Blocked& blocked);
  void await_device();
  void record_errors(std::size_t bucket, const std::function<void()>& work);
  void set_error(std::size_t bucket, const std::exception_ptr& error);
  [[noreturn]] void fail_on_device();
  void require_no_error() const;
  void with_device(const std::function<void()>& work);
  void require_step_boundary(const char* what);
  std::optional<std::uint64_t> take_wire_bytes();

  // Progress: calls of poll() of the exchange in device memory.
  void begin_bucket(std::size_t bucket) override;
  void end_bucket(std::size_t bucket, bool is_skipped) override;
  void end_step() override;

  Parts parts_;
  DevicePlanExchange* device_;  // parts_.exchange, if the gradients are in device memory
  const Topology& topology_;
  ReduceOp op_;
  const Callbacks callbacks_;
  observe::FlightRecorder& recorder_;
  const std::string name_;
  std::vector<StepHook*> hooks_;  // the result of parts_.hooks.in_order()
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::optional<observe::PlanFlight> flight_;
  GradientMarks marks_;
  bool is_held_ = false;     // changes only between passes, so mark() reads it without a lock
  std::uint64_t steps_ = 0;  // since make_buckets(); the same
  StepReport report_;        // of the latest step
  bool is_report_complete_ = true;

  // A thread holds run_mutex_ while it exchanges a bucket or polls. While thread_ runs, run_mutex_
  // guards the members from next_report_ to error_, and the exchange, except its thread-safe
  // functions. meter_.rank_meter() does not change. Only the thread that holds run_mutex_
  // increments next_.
  mutable std::mutex run_mutex_;
  StepReport next_report_;            // the report of the current step
  std::optional<StepExchange> step_;  // the current step, from its first bucket on
  metrics::StepMeter meter_;
  std::uint64_t wire_bytes_ = 0;  // wire_report().bytes_sent at the latest take_wire_bytes()
  std::exception_ptr error_;
  std::atomic<bool> has_error_{false};  // set after error_
  std::atomic<std::size_t> next_{0};    // the bucket to exchange next
  // While set, only the caller exchanges buckets. Also set during a capture.
  std::atomic<bool> caller_exchanges_{false};
  std::atomic<Capture> capture_{Capture::kNone};
  std::size_t captured_steps_ = 0;

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
