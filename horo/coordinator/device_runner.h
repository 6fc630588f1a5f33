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
#include "horo/coordinator/bucket_plan.h"
#include "horo/coordinator/captured_step.h"
#include "horo/coordinator/device_thread.h"
#include "horo/coordinator/plan_waits.h"
#include "horo/observe/plan_flight.h"

namespace horo::coordinator {

/// Exchanges the buckets of a plan whose gradients lie in a device's memory: one after the other in
/// plan order on every rank, each once its gradients are marked, when the marked streams have come
/// to their marks. What fails on the device, or does not end in time, ends the plan. Ranks need not
/// talk about what to do next.
///
/// mark() may be called from several threads, the others from one.
class DeviceRunner : private DeviceThread {
 public:
  /// Called after each bucket with its bytes and tensors, from the runner's thread.
  using OnBucket = std::function<void(std::size_t bytes, std::size_t tensors)>;

  /// What the ranks have agreed on. `device` outlives the runner; `waits` holds how its collectives
  /// wait, if they are the stand-in's, whose communicator that is.
  struct Parts {
    device::Device& device;
    Topology topology;  ///< of the ranks that take part
    EndJob end_job;
    std::vector<NamedTensor> gradients;
    BucketPlan plan;
    std::vector<collectives::FusedLayout> layouts;  ///< of the buckets
    std::unique_ptr<PlanWaits> waits;
    std::unique_ptr<collectives::Communicator> communicator;      ///< null: it has no need of one
    std::unique_ptr<collectives::DeviceCollectives> collectives;  ///< null: of one rank, alone
    std::unique_ptr<collectives::ChunkPipeline> pipeline;
  };

  /// `recorder` outlives this; it knows the plan by `name` and `process_set` (empty: all ranks).
  DeviceRunner(Parts parts, const collectives::ChunkPipeline::Treatment& treatment,
               OnBucket on_bucket, observe::FlightRecorder& recorder, const std::string& name,
               const std::string& process_set);
  /// Lets the device end the steps that are complete. What it has begun of an incomplete one is
  /// given up.
  ~DeviceRunner() override;

  const BucketPlan& plan() const { return parts_.plan; }
  const Parts& parts() const { return parts_; }
  std::size_t gradient_count() const { return parts_.gradients.size(); }

  /// What the stream `native` has been given so far makes a gradient final. Returns false if it was
  /// marked already. Does not wait for the device.
  /// Throws the error of the exchange.
  bool mark(std::size_t gradient, void* native);
  /// Throws the error of the exchange, if there is one.
  std::vector<std::size_t> unmarked() const;

  /// Ends a step, of which all gradients are marked: what the stream `native` is given from now on
  /// comes after it. Waits until the device has its work, not until it has done it. Rethrows the
  /// error of the exchange, also in later calls.
  void wait_on(void* native);
  /// Ends a step, and waits until it is done. Likewise.
  void wait();
  /// Throws the error of the exchange, if there is one by now.
  void check();

  /// Makes a graph of what `step` gives to the stream `native` and others that join it: a whole
  /// step, from its marks to wait_on(), of which nothing is done. Its exchanges are given by
  /// whoever marks, in plan order. The result does not outlive this. Throws InvalidArgument if a
  /// step is half marked, or `step` does not end one; what `step` throws; and DeviceError if it
  /// does what a graph cannot. The plan goes on after those. Throws the error of the exchange.
  std::unique_ptr<CapturedStep> capture(void* native, const std::function<void()>& step);
  /// Gives the device one more step, which it is at most two behind with. Throws InvalidArgument if
  /// a step is half marked, and the error of the exchange.
  void launch(CapturedStep& step);
  /// Waits until the device is through with its launches. Throws the error of the exchange.
  void wait(const CapturedStep& step);
  /// Waits until nobody looks at the events of its launches: it may go.
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
    // Of two steps in turn: the next one may be marked while the device is busy with one.
    std::array<std::unique_ptr<device::Event>, 2> begun, done;
  };
  struct Exchange : UnderWay {
    std::size_t bucket, end;  // up to `end` at once
    std::uint64_t step;
  };

  bool is_alone() const { return parts_.collectives == nullptr; }
  void set_mark(Bucket& bucket, void* native);
  void begin_step();
  void await_all_given(std::unique_lock<std::mutex>& lock);
  std::vector<const device::Event*> ends_of_step() const;
  // Without mutex_.
  void await(const std::vector<const device::Event*>& events);
  std::vector<const device::Event*> marks_of(const Bucket& bucket) const;

  // In a capture.
  void mark_in_capture(Bucket& bucket, std::size_t gradient, void* native);
  void give_next_to_graph();
  void wait_on_in_capture(void* native);
  void require_step_boundary(const char* what) const;

  // DeviceThread.
  bool has_next() const override;
  void give_next(std::unique_lock<std::mutex>& lock) override;
  UnderWay* oldest() override { return under_way_.empty() ? nullptr : &under_way_.front(); }
  void begin_oldest() override;
  void end_oldest() override;
  std::string duty_of_oldest() const override;
  std::exception_ptr unfinished() const override;
  std::string work_at_hand() const override { return name_of(bucket_at_hand()); }
  void record_failure(std::string_view why) noexcept override;
  void drop_work() noexcept override { under_way_.clear(); }

  std::size_t bucket_at_hand() const;
  std::string name_of(std::size_t bucket) const;

  Parts parts_;
  const std::string name_;
  const collectives::ChunkPipeline::Treatment treatment_;
  const OnBucket on_bucket_;
  observe::PlanFlight flight_;

  // Guarded by mutex_.
  std::vector<Bucket> buckets_;
  std::vector<bool> marks_;
  std::uint64_t step_ = 0;
  std::size_t next_ = 0;  // bucket to give to the device
  std::deque<Exchange> under_way_;
  bool is_giving_ = false;              // a bucket to the device, without mutex_
  std::optional<std::size_t> refused_;  // a bucket that could not be given
  enum class Capture { kNone, kMarking, kEnded };
  Capture capture_ = Capture::kNone;  // how far the step is that is being captured
  std::unique_ptr<device::Event> done_in_graph_;
};

}  // namespace horo::coordinator
