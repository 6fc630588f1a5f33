#pragma once

#include <nccl.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "collectives/nccl/nccl_buffers.h"
#include "collectives/nccl/nccl_options.h"

namespace horo::collectives {

/// Owns an NCCL communicator, the name that NCCL refers to, and the registered buffers. A call that
/// ends a communicator may block for long, so a thread of NcclThreads makes this call, and keeps
/// the name and the buffers until the call has returned. The caller must serialise all calls,
/// including those of NCCL.
class NcclCommunicator {
 public:
  explicit NcclCommunicator(const std::string& name)
      : name_(std::make_shared<const std::string>(name)) {}
  /// Waits at most kEndLimit for the thread of abort() or close(). Without either, closes the
  /// communicator. If the limit passes, the thread continues in the background.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  static constexpr std::chrono::seconds kEndLimit{2};

  /// Starts to create the communicator. It is usable when ncclCommGetAsyncError() reports success.
  /// Throws CommunicationError.
  void create(int rank, int size, const ncclUniqueId& id, const NcclOptions& options);
  /// The communicator; null before create() and after abort() or close().
  ncclComm_t get() const { return communicator_; }
  /// Null before create().
  NcclBuffers* buffers() const { return buffers_.get(); }

  /// Starts a thread that aborts the communicator, and does not wait for it. NCCL makes kernels in
  /// flight end, but the thread may wait until the program has destroyed the graphs that contain
  /// collectives.
  void abort() noexcept;
  /// Starts a thread that ends the communicator in order, and does not wait for it. The thread
  /// aborts the communicator if this fails or takes longer than `limit`.
  void close(std::chrono::nanoseconds limit) noexcept;

 private:
  void end(std::function<void(ncclComm_t)> how) noexcept;

  std::shared_ptr<const std::string> name_;
  ncclComm_t communicator_ = nullptr;
  std::shared_ptr<NcclBuffers> buffers_;
  std::shared_future<void> ended_;  // of the thread of abort() or close()
};

}  // namespace horo::collectives
