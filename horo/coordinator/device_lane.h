#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "horo/base/home_process.h"
#include "horo/coordinator/completion.h"
#include "horo/coordinator/device_executor.h"
#include "horo/coordinator/device_thread.h"
#include "horo/coordinator/operation_flights.h"

namespace horo::coordinator {

class DeviceLane;

/// An operation on a device, from its submission to its end. Its lane's, which knows how far it is.
class DeviceOperation {
 public:
  explicit DeviceOperation(std::shared_ptr<DeviceLane> lane) : lane_(std::move(lane)) {}
  /// Refused or given up, if the device never had it.
  ~DeviceOperation();
  DeviceOperation(const DeviceOperation&) = delete;
  DeviceOperation& operator=(const DeviceOperation&) = delete;

  DeviceLane& lane() const { return *lane_; }

 private:
  friend class DeviceLane;
  enum class Stage { kSubmitted, kGiven, kDone };
  struct Joints {
    std::unique_ptr<device::Event> ready, begun, done;
  };

  const std::shared_ptr<DeviceLane> lane_;
  // Guarded by the lane's mutex.
  Stage stage_ = Stage::kSubmitted;
  Joints* joints_ = nullptr;             // the lane's
  const device::Event* done_ = nullptr;  // kGiven: of the first one it travels with
  std::exception_ptr error_;
};

/// Named operations on tensors of a device, once the coordinator has their agreement: they are done
/// in the order of the responses, which is the same on all ranks. What fails on the device, or does
/// not end in time, ends the lane. The coordinator waits for nothing here.
///
/// Thread-safe, but for close().
class DeviceLane : public std::enable_shared_from_this<DeviceLane>, private DeviceThread {
 public:
  /// Called after each response with its bytes and tensors, from the lane's thread.
  using OnOperation = std::function<void(std::size_t bytes, std::size_t tensors)>;

  /// `number`: of its requests, the same on all ranks. `recorder` outlives the lane until close();
  /// `process_set`: empty for all ranks.
  DeviceLane(DeviceExecutor::Parts parts, std::uint8_t number, OnOperation on_operation,
             EndJob end_job, observe::FlightRecorder& recorder, const std::string& process_set);
  ~DeviceLane() override;

  std::uint8_t number() const { return number_; }

  /// A new operation, on what the stream `native` has been given so far. Does not wait for the
  /// device. Throws the error of the lane, ShutdownError after close().
  std::shared_ptr<DeviceOperation> open(void* native);
  /// What the ranks have agreed on, on entries with operations of this lane. Coordinator thread.
  /// Throws CommunicationError after close(): the other ranks wait for this one.
  void take(const Response& response, std::vector<Entry> entries, std::int64_t agreed);

  /// Waits until the ranks have agreed, which `completion` says, and the device has been given its
  /// part. Throws the error of either.
  void await_given(const DeviceOperation& operation, Completion& completion);
  /// The same; then what the stream `native` is given from now on comes after it.
  void wait_on(const DeviceOperation& operation, Completion& completion, void* native);
  /// The same, and waits for the device.
  void wait(const DeviceOperation& operation, Completion& completion);
  /// Whether it has ended, well or not.
  bool is_done(const DeviceOperation& operation, const Completion& completion) const;

  /// Lets the device end what the ranks have agreed on, and gives back what is the device's and the
  /// job's. Operations without an agreement end with ShutdownError.
  void close();

 private:
  friend class DeviceOperation;
  using Stage = DeviceOperation::Stage;
  using Joints = DeviceOperation::Joints;

  // What is one response.
  struct Work : UnderWay {
    Response response;
    std::vector<Entry> entries;
    std::int64_t agreed;
    device::Memory substitute;
  };

  void await_stage(const DeviceOperation& operation, Completion& completion);
  void recycle(Joints* joints) noexcept;
  // Requires mutex_, as what follows.
  Joints* take_joints();
  void require_no_capture(void* native);
  bool has_ended(const DeviceOperation& operation) const;
  void end(Work& work, const std::exception_ptr& error);
  void note_begin(Work& work);
  std::string name_of(const Work& work) const;

  // DeviceThread.
  bool has_next() const override { return !agreed_.empty(); }
  void give_next(std::unique_lock<std::mutex>& lock) override;
  UnderWay* oldest() override { return under_way_.empty() ? nullptr : &under_way_.front(); }
  void begin_oldest() override { note_begin(under_way_.front()); }
  void end_oldest() override;
  std::string duty_of_oldest() const override;
  std::string work_at_hand() const override;
  void record_failure(std::string_view why) noexcept override;
  void drop_work() noexcept override;

  const std::uint8_t number_;
  const Topology topology_;
  const OnOperation on_operation_;
  const HomeProcess home_;
  OperationFlights flights_;
  std::unique_ptr<DeviceExecutor> executor_;  // null: closed

  // Guarded by mutex_.
  std::vector<std::unique_ptr<Joints>> joints_;
  std::vector<Joints*> free_joints_;
  std::deque<Work> agreed_, under_way_;
  std::vector<device::Memory> given_up_;  // of what failed, and may still be under way
  bool has_connected_ = false;
  bool is_closed_ = false;
};

}  // namespace horo::coordinator
