#include "collectives/nccl/nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "horo/base/error.h"

namespace horo::collectives {
namespace {

[[noreturn]] void refuse() {
  const char* reason = dlerror();
  throw DeviceError(
      fmt::format("NCCL cannot be loaded: {}; install it, or add its folder to LD_LIBRARY_PATH",
                  reason == nullptr ? "unknown error" : reason));
}

// Where programs find their libraries, or where it was when horo was built.
void* open() {
  for (const char* path : {"libnccl.so.2", HORO_NCCL_LIBRARY})
    if (void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL)) return library;
  refuse();
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) refuse();
}

NcclLibrary load() {
  void* library = open();  // stays: what it has started cannot be taken down
  NcclLibrary nccl{};
  find(library, "ncclGetUniqueId", nccl.get_unique_id);
  find(library, "ncclCommInitRankConfig", nccl.comm_init_rank_config);
  find(library, "ncclCommGetAsyncError", nccl.comm_get_async_error);
  find(library, "ncclCommFinalize", nccl.comm_finalize);
  find(library, "ncclCommDestroy", nccl.comm_destroy);
  find(library, "ncclCommAbort", nccl.comm_abort);
  find(library, "ncclGetErrorString", nccl.get_error_string);
  find(library, "ncclGetLastError", nccl.get_last_error);
  find(library, "ncclGetVersion", nccl.get_version);
  find(library, "ncclGroupStart", nccl.group_start);
  find(library, "ncclGroupEnd", nccl.group_end);
  find(library, "ncclAllReduce", nccl.all_reduce);
  find(library, "ncclAllGather", nccl.all_gather);
  find(library, "ncclReduceScatter", nccl.reduce_scatter);
  find(library, "ncclReduce", nccl.reduce);
  find(library, "ncclBroadcast", nccl.broadcast);
  find(library, "ncclSend", nccl.send);
  find(library, "ncclRecv", nccl.recv);
  return nccl;
}

}  // namespace

const NcclLibrary& nccl() {
  static const NcclLibrary library = load();
  return library;
}

void check_nccl(ncclResult_t result, ncclComm_t communicator, const char* call,
                std::source_location where) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw CommunicationError(
      fmt::format("NCCL's {} failed: {} ({}), at {}:{}", call, nccl().get_error_string(result),
                  nccl().get_last_error(communicator), where.file_name(), where.line()));
}

}  // namespace horo::collectives
