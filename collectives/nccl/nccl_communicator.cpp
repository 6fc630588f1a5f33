#include "collectives/nccl/nccl_communicator.h"

#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/nccl/nccl_library.h"
#include "collectives/nccl/nccl_threads.h"
#include "horo/base/text/log.h"

namespace horo::collectives {
namespace {

using std::chrono::steady_clock;

// Finalizes and destroys the communicator. The finalization may wait until the other ranks also
// finalize. If it fails or takes longer than `limit`, aborts the communicator instead.
void finalize(ncclComm_t communicator, std::chrono::nanoseconds limit) {
  const auto until = steady_clock::now() + limit;
  ncclResult_t state = nccl().comm_finalize(communicator);
  while (state == ncclInProgress && steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (nccl().comm_get_async_error(communicator, &state) != ncclSuccess) state = ncclSystemError;
  }
  if (state == ncclSuccess)
    nccl().comm_destroy(communicator);
  else
    nccl().comm_abort(communicator);
}

}  // namespace

NcclCommunicator::~NcclCommunicator() {
  if (communicator_ != nullptr) close(kEndLimit);
  if (ended_.valid() && ended_.wait_for(kEndLimit) != std::future_status::ready)
    log_debug("the NCCL communicator '{}' ends in the background, as it waits for other ranks",
              *name_);
}

void NcclCommunicator::create(int rank, int size, const ncclUniqueId& id,
                              const NcclOptions& options) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = options.is_blocking ? 1 : 0;
  config.commName = name_->c_str();  // NCCL keeps the pointer
  if (options.max_ctas > 0) config.maxCTAs = options.max_ctas;
  HORO_NCCL(nullptr, comm_init_rank_config, &communicator_, size, id, rank, &config);
  buffers_ = std::make_shared<NcclBuffers>(communicator_);
}

void NcclCommunicator::abort() noexcept {
  end([](ncclComm_t communicator) { nccl().comm_abort(communicator); });
}

void NcclCommunicator::close(std::chrono::nanoseconds limit) noexcept {
  end([limit](ncclComm_t communicator) { finalize(communicator, limit); });
}

void NcclCommunicator::end(std::function<void(ncclComm_t)> how) noexcept {
  if (communicator_ == nullptr) return;
  try {
    std::vector<std::shared_ptr<void>> kept;
    if (buffers_ != nullptr) kept = buffers_->release();
    ended_ = NcclThreads::of_process().start([own = std::exchange(communicator_, nullptr),
                                              how = std::move(how), name = name_,
                                              kept = std::move(kept)] { how(own); });
  } catch (const std::exception& error) {
    log_warning("cannot end the NCCL communicator '{}': {}", *name_, error.what());
  }
}

}  // namespace horo::collectives
