#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "collectives/collectives.h"
#include "collectives/device/device_collectives.h"
#include "horo/base/wait.h"

namespace horo::collectives {

/// NCCL collectives over a group of ranks with one GPU each. The communicator is nonblocking: when
/// NCCL has to wait (for peers to join, or for connections at the first use), this class polls with
/// the timeout of the wait policy. A group of one rank launches nothing except a copy if input and
/// output differ.
///
/// Allgather and reduce_scatter with unequal parts are one group of broadcasts or reductions, and
/// alltoall is one group of sends and receives. Each group is one launch.
class NcclCollectives : public DeviceCollectives {
 public:
  /// Collective over the group, which `control` connects during the constructor. The calling thread
  /// has selected the GPU of this rank, and the threads of all later calls must have selected the
  /// same GPU. `name` appears in NCCL's log. `policy` outlives this object. Throws
  /// CommunicationError.
  NcclCollectives(Collectives& control, int rank, int size, const std::string& name,
                  const WaitPolicy& policy);
  /// Ends the communicator. Inside NCCL this waits for the other ranks of the host: at most two
  /// seconds here, then in a background thread. The work on all streams that used it must be
  /// complete.
  ~NcclCollectives() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  /// Allocates with ncclMemAlloc() and registers the memory with the communicator, on all ranks or
  /// on none. If NCCL does not support this, logs it once and allocates ordinary device memory.
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
  struct Handle;  // hides the NCCL header from users of this one
  // The caller of either function holds mutex_.
  void await_readiness(std::unique_lock<std::mutex>& lock, const char* what);
  void require_usable() const;
  // Locks mutex_. Throws CommunicationError with the reason if the communicator was aborted.
  std::unique_lock<std::mutex> use() const;

  const int rank_, size_;
  const WaitPolicy& policy_;
  std::unique_ptr<Handle> handle_;
  mutable std::mutex mutex_;
  std::string abort_reason_;  // guarded by mutex_, like the lifetime of the communicator
};

}  // namespace horo::collectives
