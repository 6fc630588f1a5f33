#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "collectives/collectives.h"
#include "collectives/device/device_collectives.h"
#include "horo/base/wait.h"

namespace horo::collectives {

/// NCCL's collectives over a group of ranks with a GPU each. The communicator does not block:
/// whatever NCCL has to wait for (peers that join, connections made at the first use) is waited for
/// here, with the deadline of the wait policy. A group of one rank starts nothing on the device but
/// copies where input and output differ.
///
/// Unequal parts (allgather, reduce_scatter) are one group of broadcasts or reductions, alltoall
/// one of sends and receives: a launch each.
class NcclCollectives : public DeviceCollectives {
 public:
  /// Collective over the group, which `control` connects for the moment, with the GPU that the
  /// calling thread has chosen; all later calls come from threads that have chosen the same. `name`
  /// appears in NCCL's own log. `policy` outlives this. Throws CommunicationError.
  NcclCollectives(Collectives& control, int rank, int size, const std::string& name,
                  const WaitPolicy& policy);
  /// Ends the communicator, for which the ranks of a host wait for each other in NCCL: here for two
  /// seconds at most, then in the background. The streams it was used with are done.
  ~NcclCollectives() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  /// From ncclMemAlloc() and registered with the communicator, on all ranks or none; where NCCL has
  /// none of that, which is logged once, any memory of the device.
  device::Memory allocate_buffer(device::Device& device, std::size_t bytes,
                                 Collectives& control) override;
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
  struct Handle;  // NCCL's, so that its header stays behind this one
  // Both require mutex_.
  void await_readiness(std::unique_lock<std::mutex>& lock, const char* what);
  void require_usable() const;
  // Holds mutex_. Throws why the communicator was given up.
  std::unique_lock<std::mutex> use() const;

  const int rank_, size_;
  const WaitPolicy& policy_;
  std::unique_ptr<Handle> handle_;
  mutable std::mutex mutex_;
  std::string abort_reason_;  // guarded by mutex_, as the life of the communicator is
};

}  // namespace horo::collectives
