#pragma once

#include <nccl.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/nccl/nccl_block.h"

namespace horo::collectives {

/// The blocks that are registered with an NCCL communicator. NCCL can let the GPUs of other ranks
/// access registered blocks directly, without staging copies. A registration ends with remove() or
/// with the communicator, and keeps the block allocated until then. Thread-safe, but the caller
/// must serialise add_window() with all other calls of NCCL on the communicator.
class NcclBuffers : public std::enable_shared_from_this<NcclBuffers> {
 public:
  explicit NcclBuffers(ncclComm_t communicator) : communicator_(communicator) {}

  /// Whether this NCCL has symmetric windows (2.27 or later). If not, sets `obstacle`.
  static bool has_windows(std::string& obstacle);
  /// Registers a block as a symmetric window. Collective: all ranks must call add_window() with
  /// blocks of equal size. The result is that of NCCL. On a nonblocking communicator, the
  /// registration is complete when ncclCommGetAsyncError() reports success; the caller must then
  /// call settle_window().
  ncclResult_t add_window(const std::shared_ptr<NcclBlock>& block);
  /// Returns whether NCCL has made the window of add_window(). If not, for example because
  /// NCCL_WIN_ENABLE or NCCL_LOCAL_REGISTER is 0, forgets it and sets `obstacle`.
  bool settle_window(const NcclBlock& block, std::string& obstacle);
  /// Registers a block on this rank alone. On failure, returns false and sets `obstacle`.
  bool add(const std::shared_ptr<NcclBlock>& block, std::string& obstacle);
  /// Whether the block at `data` is registered.
  bool contains(const void* data) const;
  /// Deregisters the block at `data`. Does nothing if it is not registered. If NCCL refuses, the
  /// block stays registered. The caller must ensure that no collective still uses the block.
  void remove(const void* data) noexcept;
  /// Returns what the communicator refers to: the registered blocks. The caller must call this
  /// function before it ends the communicator, and must keep the result until the communicator has
  /// ended. Later calls of add() fail, and later calls of remove() do nothing.
  std::vector<std::shared_ptr<void>> release() noexcept;

 private:
  struct Registration {
    std::shared_ptr<NcclBlock> block;
    void* handle = nullptr;         // of ncclCommRegister()
    ncclWindow_t window = nullptr;  // of ncclCommWindowRegister(), which may set it later
  };
  // Require mutex_.
  std::vector<std::shared_ptr<Registration>>::iterator find(const void* data);
  void keep(std::shared_ptr<Registration> registration);

  mutable std::mutex mutex_;  // guards the two members below
  ncclComm_t communicator_;   // null after release()
  std::vector<std::shared_ptr<Registration>> registrations_;
};

}  // namespace horo::collectives
