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
#include "horo/base/step_report.h"
#include "horo/base/topology.h"
#include "horo/coordinator/device_worker.h"
#include "horo/coordinator/plan_waits.h"
#include "horo/flight_recorder/plan_flight.h"
#include "horo/plan/bucket_plan.h"
#include "horo/plan/captured_step.h"

namespace horo::plan {

/// Exchanges the buckets of a plan whose gradients lie in device memory, in the same order on every
/// rank. The runner's thread enqueues the exchange of a bucket on the device after all gradients of
/// the bucket are marked and the buckets before it are enqueued. The device starts the exchange
/// after the work to which the marks refer. If only one rank takes part, nothing is exchanged.
/// After an error of a device, of another rank or of an exchange, and after a timeout, the plan
/// exchanges nothing more.
///
/// Several threads may call mark() at the same time. The caller must call all other functions from
/// one thread.
class DeviceRunner : private coordinator::DeviceWorker {
 public:
  /// Called for each bucket when the exchange of the bucket is complete, with the number of bytes
  /// and of tensors in the bucket. The runner's thread calls it and holds mutex_ meanwhile.
  using OnBucket = std::function<void(std::size_t bytes, std::size_t tensors)>;

  /// The plan on which the ranks have agreed, and the objects that exchange its buckets. `device`
  /// must outlive the runner. If `communicator` is not null, `collectives` uses it.
  struct Parts {
    device::Device& device;
    Topology topology;  ///< the ranks that take part
    coordinator::EndJob end_job;
    std::vector<NamedTensor> gradients;
    BucketPlan plan;
    std::vector<collectives::FusedLayout> layouts;  ///< one for each bucket
    std::unique_ptr<coordinator::PlanWaits> waits;
    std::unique_ptr<collectives::Communicator> communicator;      ///< may be null
    std::unique_ptr<collectives::DeviceCollectives> collectives;  ///< null if one rank takes part
    std::unique_ptr<collectives::ChunkPipeline> pipeline;         ///< null if one rank takes part
  };

  /// `recorder` must outlive this object. `name` and `process_set` identify the plan in the flight
  /// recorder. `process_set` is empty for a plan of all ranks of the job.
  DeviceRunner(Parts parts, const collectives::ChunkPipeline::ReduceSpec& spec, OnBucket on_bucket,
               observe::FlightRecorder& recorder, const std::string& name,
               const std::string& process_set);
  /// Waits until the exchanges of the complete steps have ended or the plan has failed. Abandons an
  /// incomplete step.
  ~DeviceRunner() override;

  const BucketPlan& plan() const { return parts_.plan; }
  /// See GradientSync::reduced(). `index` must be valid.
  ReducedGradient reduced(std::size_t index) const;

  /// Declares that a gradient is final when the device has run the work that is now on the stream
  /// `native`. Returns false if the gradient was already marked in this step. Does not wait for the
  /// device. In a capture, may wait for the other ranks if the plan has exchanged nothing before.
  /// Throws InvalidArgument if `native` is in a capture that capture() did not begin. Throws the
  /// error of the exchange, if there is one.
  bool mark(std::size_t gradient, void* native);
  /// Returns the gradients that are not marked in this step, ascending. Throws the error of the
  /// exchange, if there is one.
  std::vector<std::size_t> unmarked() const;

  /// Ends a step. All gradients must be marked. Work that the caller later enqueues on the stream
  /// `native` runs after the exchange of the step. Waits until the exchange is enqueued, but not
  /// until the device has run it. Throws InvalidArgument if `native` is in a capture that capture()
  /// did not begin. Rethrows the error of the exchange, also in later calls.
  void wait_on(void* native);
  /// Ends a step and waits until the device has run the exchange of the step. Throws
  /// InvalidArgument in a capture. Rethrows the error of the exchange, also in later calls. The
  /// report is the same for all steps.
  const StepReport& wait();
  /// Throws the error of the exchange, if the exchange has failed already. Does not wait.
  void check();

  /// Captures the work that `step` enqueues on the stream `native` and on streams that join the
  /// capture (see Device::capture()). The device runs the work only at launch(). `step` must mark
  /// all gradients and then call wait_on(). The threads that call mark() add the exchanges to the
  /// graph, in plan order. All ranks must call capture() after the same step. The result must not
  /// outlive this object.
  ///
  /// Throws InvalidArgument if gradients are already marked, if `step` does not call wait_on(), or
  /// if the collectives cannot be captured. Rethrows exceptions of `step`. Throws DeviceError if
  /// the work cannot be captured. The plan remains usable after these errors. Also throws the error
  /// of the exchange. The plan then exchanges nothing more.
  std::unique_ptr<CapturedStep> capture(void* native, const std::function<void()>& step);
  /// Enqueues a captured step. First waits until the step before the previous one has ended. Throws
  /// InvalidArgument if gradients are marked or if the stream of `step` is being captured. Throws
  /// the error of the exchange, if there is one.
  void launch(CapturedStep& step);
  /// Waits until the device has run all launches of `step` so far. Throws the error of the
  /// exchange, if there is one.
  void wait(const CapturedStep& step);
  /// Waits until the runner no longer uses the events of `step`. The caller may then destroy
  /// `step`.
  void release(const CapturedStep& step) noexcept;

 private:
  /// The latest mark of one stream in a bucket.
  struct Mark {
    void* native = nullptr;
    std::unique_ptr<device::Event> event;
    bool is_set = false;  // whether the mark belongs to this step
  };
  struct Bucket {
    std::vector<Mark> marks;
    std::size_t missing = 0;
    // One event for even and one for odd steps, because a step may be enqueued while the device
    // runs the previous step.
    std::array<std::unique_ptr<device::Event>, 2> begun, done;
  };
  struct Exchange : UnderWay {
    std::size_t bucket, end;  // exchanges buckets [bucket, end)
    std::uint64_t step;
  };

  bool is_alone() const { return parts_.collectives == nullptr; }
  void set_mark(Bucket& bucket, void* native);
  void begin_step();
  void await_all_launched(std::unique_lock<std::mutex>& lock);
  std::vector<const device::Event*> ends_of_step() const;
  // Called without mutex_.
  void await(const std::vector<const device::Event*>& events);
  std::vector<const device::Event*> marks_of(const Bucket& bucket) const;

  // The first three functions are called only during a capture.
  void mark_in_capture(Bucket& bucket, std::size_t gradient, void* native);
  void give_next_to_graph();
  void wait_on_in_capture(void* native);
  void require_step_boundary(const char* what) const;

  // The functions of DeviceWorker.
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
  const StepReport report_;
  observe::PlanFlight flight_;

  // mutex_ guards the members below.
  std::vector<Bucket> buckets_;
  std::vector<bool> marks_;
  std::uint64_t step_ = 0;
  std::size_t next_ = 0;  // the bucket to enqueue next
  std::deque<Exchange> under_way_;
  bool is_giving_ = false;              // whether the thread enqueues a bucket now, without mutex_
  std::optional<std::size_t> refused_;  // the bucket that could not be enqueued, if any
  enum class Capture { kNone, kMarking, kEnded };
  Capture capture_ = Capture::kNone;  // progress of the step that is being captured
  std::unique_ptr<device::Event> done_in_graph_;
};

}  // namespace horo::plan
