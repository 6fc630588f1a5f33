#pragma once

#include <functional>
#include <mutex>

#include "collectives/collectives.h"
#include "collectives/device/device_collectives.h"
#include "collectives/device/first_failure.h"

namespace horo::collectives {

/// Runs any Collectives on the streams of a device::HostDevice. Takes the place of NCCL on machines
/// without a GPU.
class HostDeviceCollectives : public DeviceCollectives {
 public:
  /// `collectives` must connect the same ranks and outlive this object. No other code may use
  /// `collectives` while this object exists. `abort` must make waits in `collectives` fail.
  HostDeviceCollectives(Collectives& collectives, int rank, int size,
                        std::function<void(const std::string&)> abort);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void allreduce(void* data, DataType type, std::size_t count, ReduceOp op,
                 device::Stream& stream) override;
  void broadcast(void* data, std::size_t bytes, int root, device::Stream& stream) override;
  void allgather(const void* input, std::span<const std::size_t> bytes_of, void* output,
                 device::Stream& stream) override;
  void reduce_scatter(const void* input, DataType type, std::span<const std::size_t> count_of,
                      void* output, ReduceOp op, device::Stream& stream) override;
  void alltoall(const void* input, std::span<const std::size_t> bytes_to, void* output,
                std::span<const std::size_t> bytes_from, device::Stream& stream) override;
  std::optional<std::string> failure() const override;
  void abort(const std::string& reason) noexcept override;

 private:
  void submit(device::Stream& stream, std::function<void()> collective);

  Collectives& collectives_;
  const int rank_, size_;
  const std::function<void(const std::string&)> abort_;
  std::mutex one_at_a_time_;  // held during each collective; guards collectives_
  FirstFailure failure_;
};

}  // namespace horo::collectives
