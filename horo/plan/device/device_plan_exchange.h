#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/device/chunk_pipeline.h"
#include "collectives/device/device_connection.h"
#include "collectives/device/memory_spans.h"
#include "horo/base/gradient_sync_options.h"
#include "horo/base/step_report.h"
#include "horo/base/topology.h"
#include "horo/coordinator/device_watch.h"
#include "horo/coordinator/plan_waits.h"
#include "horo/plan/device/captured_step.h"
#include "horo/plan/device/device_gradient_memory.h"
#include "horo/plan/plan_exchange.h"

namespace horo::plan {

/// Exchanges buckets in device memory. exchange() only enqueues work: the device starts the
/// exchange of a bucket after the work to which the marks refer, and the host runs at most two
/// steps ahead of the device. If only one rank takes part, nothing is exchanged.
///
/// poll() tracks the exchanges in flight. An error of the device, of another rank or of an
/// exchange, and a timeout, end the plan; see fail().
///
/// mark(), fail(), has_failed(), is_in_flight() and current_bucket() are thread-safe. All other
/// functions are called by one thread at a time.
class DevicePlanExchange : public PlanExchange {
 public:
  /// Connects the devices with at most `max_ctas` blocks per collective; 0: as NCCL decides.
  /// Collective over `control`. An error on this rank alone is returned in error_text.
  using Connect = std::function<collectives::DeviceConnection(
      coordinator::PlanWaits& waits, std::size_t max_ctas, collectives::Collectives& control)>;
  /// Receives the progress of the exchanges. Called by the thread that calls poll().
  class Progress {
   public:
    virtual ~Progress() = default;
    virtual void begin_bucket(std::size_t bucket) = 0;
    /// `is_skipped` is whether the step was skipped.
    virtual void end_bucket(std::size_t bucket, bool is_skipped) = 0;
    virtual void end_step() = 0;
  };
  struct Parts {
    std::string name;  ///< of the plan, for errors
    std::shared_ptr<device::Device> device;
    const Topology& topology;  ///< the ranks that take part; must outlive the exchange
    coordinator::EndJob end_job;
    Connect connect;
    WaitPolicy policy;
    std::function<void()> look;  ///< poll() calls it; see coordinator::PlanWaits
    std::vector<NamedTensor> gradients;
    std::vector<bool> is_metric;
    GradientSyncOptions options;
    std::size_t max_ctas = 0;
  };

  explicit DevicePlanExchange(Parts parts);
  ~DevicePlanExchange() override;

  DevicePlanExchange* on_device() override { return this; }
  BucketPlan fit(BucketPlan plan) const override;
  /// Also connects the devices, the first time and after set_max_ctas(). Throws DeviceError, with
  /// the same text on all ranks, if a rank cannot allocate memory or connect its device.
  void use_plan(const BucketPlan& plan, collectives::Collectives& control) override;
  GradientMemory* memory() override { return memory_.get(); }
  void mark(std::size_t gradient, void* stream) override;
  void set_zero(std::size_t gradient, std::optional<void*> stream) override;
  void prepare(std::size_t bucket) override;
  void exchange(std::size_t bucket, const BucketExchange& how) override;
  void skip(std::size_t bucket) override;
  void end_step() override;

  /// Must be called before the first exchange. `progress` must outlive the calls of poll().
  void set_progress(Progress& progress) { progress_ = &progress; }
  /// Prepares the calling thread for work on the device.
  void serve_thread() { parts_.device->serve_thread(); }
  /// The settings of the next use_plan().
  void set_chunk_bytes(std::size_t bytes) { parts_.options.chunk_bytes = bytes; }
  void set_max_ctas(std::size_t max_ctas) { parts_.max_ctas = max_ctas; }

  /// Makes later work on `stream` wait for the exchange of the latest step. Called after
  /// end_step().
  void join(void* stream);
  /// Waits on the host until the device has run the latest step or `has_failed` is true. Throws
  /// errors of the device, and CommunicationError after the timeout.
  void await(const std::function<bool()>& has_failed) const { await(ends_, has_failed); }
  /// The same for the latest launch of a captured step.
  void await(const CapturedStep& step, const std::function<bool()>& has_failed) const;
  /// See GradientSync::reduced(). `gradient` must be valid.
  ReducedGradient reduced(std::size_t gradient) const;

  /// Observes the exchanges in flight and reports their progress. Throws an error if an exchange
  /// has failed or has timed out, or if the job was aborted.
  void poll();
  bool is_in_flight() const { return in_flight_.load() > 0; }
  /// Whether all exchanges in flight belong to the current step, which is incomplete.
  bool is_only_current_in_flight() const;
  /// Whether the job was aborted or the collectives have failed.
  bool has_failed() const { return watch_.has_failed(); }
  /// Must be called in the handler of an error of this plan. The first call determines the error of
  /// the plan (DeviceWatch::end_job()), may abort the job, and aborts the collectives. Returns the
  /// error of the plan.
  std::exception_ptr fail() noexcept;
  /// The bucket at which the exchange is; for the flight recorder.
  std::size_t current_bucket() const { return current_.load(); }
  /// Ends a wait of exchange() for other ranks; later calls throw ShutdownError until resume().
  /// Thread-safe.
  void cancel_enqueuing();
  void resume();

  // Steps as graphs of the device.

  /// Whether `stream` is being captured.
  bool is_captured(void* stream);
  /// Captures `step`, which must mark all gradients. For each bucket, the caller calls
  /// exchange_in_graph() in `step`, and at the end join_in_graph().
  std::unique_ptr<CapturedStep> capture(void* stream, const std::function<void()>& step);
  void require_capturable() const;
  void exchange_in_graph(std::size_t bucket);
  void join_in_graph(void* stream);
  /// The marks of a capture belong to no step.
  void drop_marks();
  /// Enqueues a captured step. First waits until the step before the previous one has ended.
  void launch(CapturedStep& step);
  /// Whether a launch of `step` is in flight.
  bool is_in_flight(const CapturedStep& step) const;

 private:
  /// The latest mark of one stream in a bucket.
  struct Mark {
    void* native = nullptr;
    std::unique_ptr<device::Event> event;
    bool is_set = false;  // whether the mark belongs to this step
  };
  struct Bucket {
    std::vector<std::size_t> members;
    std::vector<Mark> marks;  // guarded by marks_mutex_
    // One event for even and one for odd steps, because a step may be enqueued while the device
    // runs the previous step.
    std::array<std::unique_ptr<device::Event>, 2> begun, done, prepared;
  };
  /// The exchange of buckets [bucket, end), until poll() has observed its end.
  struct InFlight {
    const device::Event *begun, *done;  // null if the device has nothing to do
    // The start of the timeout. If empty, poll() sets it when the device has begun the exchange.
    std::optional<std::chrono::steady_clock::time_point> since;
    std::size_t bucket, end;
    std::uint64_t step;
    bool is_skipped = false;
  };

  // The name of the current bucket in errors, such as "allreduce 'net/bucket 2'".
  std::string describe_current() const;
  bool is_alone() const { return connection_.collectives == nullptr; }
  bool uses_memory() const;
  DataType wire_of(std::size_t gradient) const;
  std::vector<TensorView> tensors_of(const std::vector<std::size_t>& members) const;

  // The parts of use_plan().
  void connect(collectives::Collectives& control);
  std::vector<collectives::MemoryFacts> agree_on_memory(collectives::Collectives& control) const;
  void lay_out(std::span<const collectives::MemoryFacts> facts);
  void allocate(collectives::Collectives& control);
  void release();

  device::Stream& stream_of(void* native);
  std::vector<const device::Event*> marks_of(const Bucket& bucket);
  collectives::ChunkPipeline::ReduceSpec spec_of(const BucketExchange& how) const;
  void await(const std::vector<const device::Event*>& events,
             const std::function<bool()>& has_failed) const;
  void await_free(const device::Event* done);
  void await_step(std::uint64_t step);
  void observe(InFlight& exchange);
  void push(const InFlight& exchange);

  Parts parts_;
  Progress* progress_ = nullptr;
  std::size_t connected_ctas_ = 0;
  std::unique_ptr<coordinator::PlanWaits> waits_;  // of the collectives
  coordinator::DeviceWatch watch_;

  BucketPlan plan_;
  std::vector<Bucket> buckets_;
  std::vector<collectives::FusedLayout> layouts_;  // one for each bucket
  collectives::DeviceConnection connection_;
  std::unique_ptr<collectives::ChunkPipeline> pipeline_;  // null if one rank takes part
  std::unique_ptr<DeviceGradientMemory> memory_;          // null if the options need no such work
  std::array<std::unique_ptr<device::Event>, 2> ended_;   // the ends of steps, with memory_
  std::unique_ptr<device::Event> done_in_graph_;
  std::vector<const device::Event*> ends_;  // after which the latest step is complete
  std::uint64_t step_ = 0;
  bool has_exchanged_ = false;
  std::deque<InFlight> under_way_;
  std::atomic<std::size_t> in_flight_{0};  // under_way_.size(), and those whose end poll() reports
  std::atomic<std::size_t> current_{0};
  // exchange() sets is_enqueuing_ and then reads is_closing_; cancel_enqueuing() sets is_closing_
  // and then reads is_enqueuing_. So at least one of them observes the other.
  std::atomic<bool> is_enqueuing_{false}, is_closing_{false};

  std::unique_ptr<device::Stream> zeroing_;  // for set_zero() without a stream
  std::mutex marks_mutex_;                   // guards streams_ and the marks of the buckets
  std::unordered_map<void*, std::unique_ptr<device::Stream>> streams_;

  std::mutex failure_mutex_;  // guards failure_
  std::exception_ptr failure_;
};

}  // namespace horo::plan
