#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "collectives/collectives.h"
#include "collectives/device/device_collectives.h"
#include "collectives/nccl/nccl_options.h"
#include "horo/base/wait.h"

namespace horo::collectives {

class NcclBlock;
class NcclCommunicator;

/// NCCL collectives over a group of ranks with one GPU each. The communicator is nonblocking. When
/// NCCL has to wait (for peers to join, or for connections at the first use), this class polls with
/// the timeout of the wait policy. In a group of one rank, a collective only copies its input to
/// its output, if they are separate.
///
/// An allgather with unequal parts is one NCCL group of broadcasts. A reduce_scatter with unequal
/// parts is one group of reductions. An alltoall is one group of sends and receives.
class NcclCollectives : public DeviceCollectives {
 public:
  /// Collective over the group. `control` connects the ranks of the group and is used only during
  /// the constructor. The threads that call the constructor and the collectives must have selected
  /// the GPU of this rank. `name` appears in NCCL's log. `policy` must outlive this object. Throws
  /// DeviceError on all ranks if any rank cannot load NCCL or rank 0 cannot create an id. Throws
  /// CommunicationError if NCCL cannot create the communicator or if a wait times out.
  NcclCollectives(Collectives& control, int rank, int size, const std::string& name,
                  const WaitPolicy& policy, const NcclOptions& options = {});
  /// Ends the communicator, unless abort() has ended it. All work that uses the communicator must
  /// be complete. NCCL may wait until other ranks end their communicators too, and until the graphs
  /// that contain collectives are destroyed. The destructor waits at most two seconds for NCCL.
  /// After that, a background thread continues, and aborts the communicator after the timeout of
  /// the policy. exit() waits at most two seconds for such threads.
  ~NcclCollectives() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  /// Allocates memory with ncclMemAlloc() and registers it as register_memory() does. Allocates
  /// ordinary device memory if ncclMemAlloc() fails on this rank or if the group has only one rank.
  device::Memory allocate_buffer(device::Device& device, std::size_t bytes,
                                 Collectives& control) override;
  /// Registers the block of the range as a symmetric window (ncclCommWindowRegister). If a rank
  /// cannot, or if the sizes of the blocks or the offsets of the ranges differ, all ranks register
  /// their blocks with ncclCommRegister() instead. If a rank cannot do that either, no rank
  /// registers its block, and each process logs the first such failure. Throws
  /// CommunicationError if NCCL fails while the ranks create the window; the communicator is then
  /// unusable. NCCL_WIN_ENABLE=0 avoids symmetric windows.
  bool register_memory(const void* data, std::size_t bytes, Collectives& control) override;
  void allreduce(void* data, DataType type, std::size_t count, ReduceOp op,
                 device::Stream& stream) override;
  void allreduce_parts(std::span<const Part> parts, DataType type, ReduceOp op,
                       device::Stream& stream) override;
  void broadcast(void* data, std::size_t bytes, int root, device::Stream& stream) override;
  void allgather(const void* input, std::span<const std::size_t> bytes_of, void* output,
                 device::Stream& stream) override;
  void reduce_scatter(const void* input, DataType type, std::span<const std::size_t> count_of,
                      void* output, ReduceOp op, device::Stream& stream) override;
  void alltoall(const void* input, std::span<const std::size_t> bytes_to, void* output,
                std::span<const std::size_t> bytes_from, device::Stream& stream) override;
  std::optional<std::string> failure() const override;
  /// Does not wait for NCCL, so callers may hold locks.
  void abort(const std::string& reason) noexcept override;

 private:
  bool register_block(const std::shared_ptr<NcclBlock>& block, std::size_t offset,
                      std::string obstacle, Collectives& control);
  bool add_window(const std::shared_ptr<NcclBlock>& block, std::string& obstacle);
  // The caller of await_readiness() or require_usable() must hold mutex_.
  void await_readiness(std::unique_lock<std::mutex>& lock, const char* what);
  void require_usable() const;
  // Locks mutex_. Throws CommunicationError with the reason if the communicator was aborted.
  std::unique_lock<std::mutex> use() const;

  const int rank_, size_;
  const WaitPolicy& policy_;
  std::unique_ptr<NcclCommunicator> communicator_;  // hides the NCCL header from users
  mutable std::mutex mutex_;  // guards abort_reason_ and the lifetime of the communicator
  std::string abort_reason_;  // empty if the communicator was not aborted
};

}  // namespace horo::collectives
