#pragma once

#include <nccl.h>

#include <source_location>

namespace horo::collectives {

/// Throws CommunicationError, with the call, NCCL's texts and the place, unless `result` is success
/// or in progress.
void check_nccl(ncclResult_t result, ncclComm_t communicator, const char* call,
                std::source_location where = std::source_location::current());

}  // namespace horo::collectives

#define HORO_NCCL(call, communicator) \
  ::horo::collectives::check_nccl((call), (communicator), #call)
