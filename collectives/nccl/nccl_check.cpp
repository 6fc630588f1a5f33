#include "collectives/nccl/nccl_check.h"

#include <fmt/format.h>

#include "horo/base/error.h"

namespace horo::collectives {

void check_nccl(ncclResult_t result, ncclComm_t communicator, const char* call,
                std::source_location where) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw CommunicationError(fmt::format("{} failed: {} ({}), at {}:{}", call,
                                       ncclGetErrorString(result),
                                       ncclGetLastError(communicator), where.file_name(),
                                       where.line()));
}

}  // namespace horo::collectives
