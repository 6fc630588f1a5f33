#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "horo/base/system/home_process.h"
#include "horo/coordinator/completion.h"
#include "horo/coordinator/device_executor.h"
#include "horo/coordinator/device_worker.h"
#include "horo/coordinator/operation_flights.h"

namespace horo::coordinator {

class DeviceOperationQueue;

/// An operation on tensors of a device. DeviceOperationQueue::open() creates the operation, and
/// this queue updates the state of the operation.
class DeviceOperation {
 public:
  explicit DeviceOperation(std::shared_ptr<DeviceOperationQueue> queue)
      : queue_(std::move(queue)) {}
  /// Returns the events to the queue if the queue has not ended the operation, for example because
  /// the ranks did not agree on the operation.
  ~DeviceOperation();
  DeviceOperation(const DeviceOperation&) = delete;
  DeviceOperation& operator=(const DeviceOperation&) = delete;

  DeviceOperationQueue& queue() const { return *queue_; }

 private:
  friend class DeviceOperationQueue;
  enum class Stage { kSubmitted, kLaunched, kDone };
  struct EventSet {
    std::unique_ptr<device::Event> ready, begun, done;
  };

  const std::shared_ptr<DeviceOperationQueue> queue_;
  // Guarded by the queue's mutex.
  Stage stage_ = Stage::kSubmitted;
  EventSet* events_ = nullptr;  // owned by the queue
  // The event `done` of the first operation of the response. Null except in stage kLaunched.
  const device::Event* done_ = nullptr;
  std::exception_ptr error_;
  std::vector<Completion::Callback> callbacks_;
};

/// Runs named operations on tensors of one device. After the ranks have agreed on the first
/// operation, the queue connects the devices of the ranks. After the ranks have agreed on an
/// operation, the queue's thread enqueues the operation on the device. All ranks enqueue operations
/// in the order of the responses. After an error or a timeout on the device, all pending and later
/// operations of the queue end with an error. The coordinator does not wait for the device.
///
/// Thread-safe, except that only one thread at a time may call connect() and close().
class DeviceOperationQueue : public std::enable_shared_from_this<DeviceOperationQueue>,
                             private DeviceWorker {
 public:
  /// Called by the queue's thread when the device has completed a response, with the numbers of
  /// bytes and tensors of the response. The thread holds the queue's mutex during the call, so the
  /// function must not call the queue.
  using OnOperation = std::function<void(std::size_t bytes, std::size_t tensors)>;
  /// The result of Connect: the executor, or the reason why the ranks cannot be connected.
  struct Connection {
    std::unique_ptr<DeviceExecutor> executor;
    std::string error_text;  ///< equal on all ranks
  };
  /// Connects the devices of the ranks. The waits of the collectives must use `waits`. Collective
  /// over `control`. If a rank cannot be connected, must return its error on all ranks.
  using Connect = std::function<Connection(PlanWaits& waits, collectives::Collectives& control)>;

  /// `number` identifies the queue in requests, and must be at least 1. `recorder` must exist until
  /// close() has returned.
  DeviceOperationQueue(std::shared_ptr<device::Device> device, std::uint8_t number,
                       const Topology& topology, std::unique_ptr<PlanWaits> waits, Connect connect,
                       OnOperation on_operation, EndJob end_job, observe::FlightRecorder& recorder);
  ~DeviceOperationQueue() override;

  std::uint8_t number() const { return number_; }
  const device::Device& device() const { return *shared_device_; }

  /// Creates an operation that starts after the work that is already on the stream `native`. Does
  /// not wait for the device. Throws the error of the queue if the queue has failed or fails during
  /// the call. Throws ShutdownError after close(), and InvalidArgument if the stream is being
  /// captured.
  std::shared_ptr<DeviceOperation> open(void* native);
  /// Connects the devices of the ranks, unless an earlier call has connected them. Called by the
  /// owner of the coordinator's rounds before add(). Collective over `control`. Throws DeviceError
  /// on every rank, with the same text, if a rank cannot be connected; a later call tries again.
  /// Throws CommunicationError if a rank was lost.
  void connect(collectives::Collectives& control);
  /// Adds a response. The operations of `entries` must belong to this queue. `agreed` is the value
  /// of observe::flight_clock() when this rank received the response. Called by the owner of the
  /// coordinator's rounds after connect(). If the queue has failed, ends the operations with the
  /// error of the queue.
  void add(const Response& response, std::vector<Entry> entries, std::int64_t agreed);

  /// Waits until the ranks have agreed on the operation and the operation is enqueued on the
  /// device. After a failure, also waits up to 2 s until the device no longer uses the tensors.
  /// `completion` must be Entry::completion of the operation, which is set when the ranks have
  /// agreed. Throws the error of `completion` or of the operation, if there is one. Throws
  /// ShutdownError if close() ends the operation, and InvalidArgument in a completion callback.
  void await_launched(const DeviceOperation& operation, Completion& completion);
  /// Calls await_launched(). Work that is later enqueued on the stream `native` does not start
  /// before the device has completed the operation. Throws InvalidArgument if the stream is being
  /// captured.
  void wait_on(const DeviceOperation& operation, Completion& completion, void* native);
  /// Waits until the device has completed the operation. Throws as await_launched() does.
  void wait(const DeviceOperation& operation, Completion& completion);
  /// Returns whether the operation has ended, with or without an error. Does not wait for the
  /// device. After an error on the device, returns false until the queue's thread has observed the
  /// error.
  bool is_done(const DeviceOperation& operation, const Completion& completion) const;
  /// Calls `callback` once after the operation has ended, with its error or with null. If the
  /// operation has already ended, calls `callback` before then() returns. Otherwise the queue's
  /// thread or the coordinator's thread calls it.
  void then(const std::shared_ptr<DeviceOperation>& operation, Completion& completion,
            Completion::Callback callback);

  /// Waits until the added responses have ended. Then destroys the executor, the events and the
  /// streams. Operations for which no response was added end with ShutdownError. A second call has
  /// no effect.
  void close();

 private:
  friend class DeviceOperation;
  using Stage = DeviceOperation::Stage;
  using EventSet = DeviceOperation::EventSet;

  // The work of one response that was passed to add().
  struct Work : UnderWay {
    Response response;
    std::vector<Entry> entries;
    std::int64_t agreed;
    device::Memory substitute;
  };

  void await_stage(const DeviceOperation& operation, Completion& completion);
  void throw_error_of(const DeviceOperation& operation);
  void add_callback(DeviceOperation& operation, Completion::Callback callback);
  void recycle(EventSet* events) noexcept;
  // The caller of the functions below must hold mutex_.
  EventSet* take_event_set();
  void require_no_capture(void* native);
  bool has_ended(const DeviceOperation& operation) const;
  void end(Work& work, const std::exception_ptr& error);
  void note_begin(Work& work);
  std::string name_of(const Work& work) const;

  // Overrides of DeviceWorker.
  bool has_next() const override { return !agreed_.empty(); }
  void launch_next(std::unique_lock<std::mutex>& lock) override;
  UnderWay* oldest() override { return under_way_.empty() ? nullptr : &under_way_.front(); }
  void begin_oldest() override { note_begin(under_way_.front()); }
  void end_oldest() override;
  bool has_callbacks() const override { return !due_callbacks_.empty(); }
  void run_callbacks(std::unique_lock<std::mutex>& lock) override;
  void release_device(std::unique_lock<std::mutex>& lock) override;
  std::string describe_oldest() const override;
  std::string describe_current() const override;
  void record_failure(std::string_view why) noexcept override;
  void drop_work() noexcept override;

  const std::shared_ptr<device::Device> shared_device_;
  const std::unique_ptr<PlanWaits> waits_;  // outlives the executor, whose waits use it
  const std::uint8_t number_;
  const Topology topology_;
  const Connect connect_;
  const OnOperation on_operation_;
  const HomeProcess home_;
  OperationFlights flights_;
  // Null before connect(), after release_device() and after close().
  std::unique_ptr<DeviceExecutor> executor_;

  // Guarded by mutex_.
  std::vector<std::unique_ptr<EventSet>> event_sets_;
  std::vector<EventSet*> free_event_sets_;
  std::deque<Work> agreed_, under_way_;
  std::vector<std::pair<Completion::Callback, std::exception_ptr>> due_callbacks_;
  std::vector<device::Memory> given_up_;  // memory that failed work on the device may still use
  bool is_connected_ = false;
  bool has_launched_ = false;
  bool is_released_ = false;  // the device no longer executes failed work
  bool is_closed_ = false;
};

}  // namespace horo::coordinator
