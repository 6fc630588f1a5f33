#pragma once

#include <nccl.h>

#include "horo/base/source_location.h"

namespace horo::collectives {

/// The functions of NCCL. The first call of nccl() loads the library. Programs that use no GPU
/// therefore do not map its hundreds of megabytes, and also run on machines without NCCL.
struct NcclLibrary {
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config;
  decltype(&ncclCommGetAsyncError) comm_get_async_error;
  decltype(&ncclCommFinalize) comm_finalize;
  decltype(&ncclCommDestroy) comm_destroy;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclGetErrorString) get_error_string;
  decltype(&ncclGetLastError) get_last_error;
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclReduce) reduce;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) recv;
  // The functions below are null in NCCL versions before 2.19.
  decltype(&ncclMemAlloc) mem_alloc;
  decltype(&ncclMemFree) mem_free;
  decltype(&ncclCommRegister) comm_register;
  decltype(&ncclCommDeregister) comm_deregister;
  // The functions below are null in NCCL versions before 2.27.
  decltype(&ncclCommWindowRegister) comm_window_register;
  decltype(&ncclCommWindowDeregister) comm_window_deregister;
};

/// Returns the functions of NCCL. The first call loads the library and logs its version and path.
/// Thread-safe. Throws DeviceError if libnccl.so.2 cannot be loaded or lacks a required function.
/// The next call then tries again.
const NcclLibrary& nccl();

/// Throws CommunicationError with the call, NCCL's error texts and the source location, unless
/// `result` is ncclSuccess or ncclInProgress. `communicator` may be null.
void check_nccl(ncclResult_t result, ncclComm_t communicator, const char* call,
                SourceLocation where = SourceLocation::current());

}  // namespace horo::collectives

/// HORO_NCCL(communicator, function, arguments...): calls nccl().function and checks the result.
#define HORO_NCCL(communicator, function, ...)                                       \
  ::horo::collectives::check_nccl(::horo::collectives::nccl().function(__VA_ARGS__), \
                                  (communicator), #function)
