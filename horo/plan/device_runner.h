#pragma once

#include <array>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/device/chunk_pipeline.h"
#include "horo/base/topology.h"
#include "horo/coordinator/device_worker.h"
#include "horo/coordinator/plan_waits.h"
#include "horo/flight_recorder/plan_flight.h"
#include "horo/plan/bucket_plan.h"
#include "horo/plan/captured_step.h"

namespace horo::coordinator {

/// Exchanges the buckets of a plan whose gradients lie in device memory, in plan order on every
/// rank. A bucket is enqueued when its gradients are marked, and runs on the device after the work
/// that the marked streams had at that time. A failure or a timeout on the device ends the plan.
/// Sends no control messages.
///
/// mark() may be called from several threads, all other functions from one.
class DeviceRunner : private DeviceWorker {
 public:
  /// Called after each bucket with its bytes and tensors, from the runner's thread.
  using OnBucket = std::function<void(std::size_t bytes, std::size_t tensors)>;

  /// What the ranks have agreed on. `device` outlives the runner. `waits` and `communicator` belong
  /// to the collectives of the host stand-in.
  struct Parts {
    device::Device& device;
    Topology topology;  ///< of the ranks that take part
    EndJob end_job;
    std::vector<NamedTensor> gradients;
    BucketPlan plan;
    std::vector<collectives::FusedLayout> layouts;  ///< of the buckets
    std::unique_ptr<PlanWaits> waits;
    std::unique_ptr<collectives::Communicator> communicator;      ///< null: not needed
    std::unique_ptr<collectives::DeviceCollectives> collectives;  ///< null: the job has one rank
    std::unique_ptr<collectives::ChunkPipeline> pipeline;
  };

  /// `recorder` outlives this object. `name` and `process_set` (empty: all ranks) identify the plan
  /// in the flight recorder.
  DeviceRunner(Parts parts, const collectives::ChunkPipeline::ReduceSpec& spec, OnBucket on_bucket,
               observe::FlightRecorder& recorder, const std::string& name,
               const std::string& process_set);
  /// Waits until the device has finished the complete steps. Abandons an incomplete step.
  ~DeviceRunner() override;

  const BucketPlan& plan() const { return parts_.plan; }
  const Parts& parts() const { return parts_; }
  std::size_t gradient_count() const { return parts_.gradients.size(); }

  /// Marks a gradient as final after the work that the stream `native` has now. Returns false if it
  /// was already marked in this step. Does not wait for the device. Throws the error of the
  /// exchange.
  bool mark(std::size_t gradient, void* native);
  /// Throws the error of the exchange, if there is one.
  std::vector<std::size_t> unmarked() const;

  /// Ends a step in which all gradients are marked: later work of the stream `native` runs after
  /// the step. Waits until the exchange is enqueued, not until it has run. Rethrows the error of
  /// the exchange, also in later calls.
  void wait_on(void* native);
  /// Ends a step and waits until the device has run it. Rethrows errors likewise.
  void wait();
  /// Throws the error of the exchange, if there is one so far.
  void check();

  /// Captures the work that `step` enqueues on the stream `native` and on streams that join it: a
  /// whole step, from its marks to wait_on(). Nothing runs yet. The thread that marks enqueues the
  /// exchanges, in plan order. The result must not outlive this object. Throws InvalidArgument if a
  /// step is incomplete or `step` does not call wait_on(); rethrows exceptions of `step`; throws
  /// DeviceError if the work cannot be captured. The plan remains usable after these. Throws the
  /// error of the exchange.
  std::unique_ptr<CapturedStep> capture(void* native, const std::function<void()>& step);
  /// Enqueues a captured step. At most two steps are in flight. Throws InvalidArgument if a step is
  /// incomplete, and the error of the exchange.
  void launch(CapturedStep& step);
  /// Waits until the device has run the launches of `step`. Throws the error of the exchange.
  void wait(const CapturedStep& step);
  /// Waits until the events of its launches are no longer used, so that `step` can be destroyed.
  void release(const CapturedStep& step) noexcept;

 private:
  /// The latest mark of a stream.
  struct Mark {
    void* native = nullptr;
    std::unique_ptr<device::Event> event;
    bool is_set = false;  // in this step
  };
  struct Bucket {
    std::vector<Mark> marks;
    std::size_t missing = 0;
    // For steps of even and odd number: a step may be marked while the previous one runs.
    std::array<std::unique_ptr<device::Event>, 2> begun, done;
  };
  struct Exchange : UnderWay {
    std::size_t bucket, end;  // buckets [bucket, end)
    std::uint64_t step;
  };

  bool is_alone() const { return parts_.collectives == nullptr; }
  void set_mark(Bucket& bucket, void* native);
  void begin_step();
  void await_all_launched(std::unique_lock<std::mutex>& lock);
  std::vector<const device::Event*> ends_of_step() const;
  // Without mutex_.
  void await(const std::vector<const device::Event*>& events);
  std::vector<const device::Event*> marks_of(const Bucket& bucket) const;

  // In a capture.
  void mark_in_capture(Bucket& bucket, std::size_t gradient, void* native);
  void give_next_to_graph();
  void wait_on_in_capture(void* native);
  void require_step_boundary(const char* what) const;

  // DeviceWorker.
  bool has_next() const override;
  void launch_next(std::unique_lock<std::mutex>& lock) override;
  UnderWay* oldest() override { return under_way_.empty() ? nullptr : &under_way_.front(); }
  void begin_oldest() override;
  void end_oldest() override;
  std::string describe_oldest() const override;
  std::exception_ptr unfinished() const override;
  std::string describe_current() const override { return name_of(bucket_at_hand()); }
  void record_failure(std::string_view why) noexcept override;
  void drop_work() noexcept override { under_way_.clear(); }

  std::size_t bucket_at_hand() const;
  std::string name_of(std::size_t bucket) const;

  Parts parts_;
  const std::string name_;
  const collectives::ChunkPipeline::ReduceSpec spec_;
  const OnBucket on_bucket_;
  observe::PlanFlight flight_;

  // Guarded by mutex_.
  std::vector<Bucket> buckets_;
  std::vector<bool> marks_;
  std::uint64_t step_ = 0;
  std::size_t next_ = 0;  // the bucket to enqueue next
  std::deque<Exchange> under_way_;
  bool is_giving_ = false;              // a bucket is being enqueued, without mutex_
  std::optional<std::size_t> refused_;  // a bucket that could not be enqueued
  enum class Capture { kNone, kMarking, kEnded };
  Capture capture_ = Capture::kNone;  // progress of the step that is being captured
  std::unique_ptr<device::Event> done_in_graph_;
};

}  // namespace horo::coordinator
