#include "collectives/nccl/nccl_library.h"

#include <fmt/format.h>

#include <string>

#include "horo/base/error.h"
#include "horo/base/text/log.h"
#include "horo/device/loaded_library.h"

namespace horo::collectives {
namespace {

// Since NCCL 2.9 the version is MAJOR * 10000 + MINOR * 100 + PATCH.
void log_version(const NcclLibrary& nccl, const std::string& path) {
  int version = 0;
  if (nccl.get_version(&version) != ncclSuccess) return;
  log_info("NCCL {}.{}.{} from {}", version / 10000, version / 100 % 100, version % 100, path);
}

NcclLibrary load() {
  const device::LoadedLibrary library("NCCL", "libnccl.so.2", HORO_NCCL_LIBRARY);
  NcclLibrary nccl{};
  library.find("ncclGetUniqueId", nccl.get_unique_id);
  library.find("ncclCommInitRankConfig", nccl.comm_init_rank_config);
  library.find("ncclCommGetAsyncError", nccl.comm_get_async_error);
  library.find("ncclCommFinalize", nccl.comm_finalize);
  library.find("ncclCommDestroy", nccl.comm_destroy);
  library.find("ncclCommAbort", nccl.comm_abort);
  library.find("ncclGetErrorString", nccl.get_error_string);
  library.find("ncclGetLastError", nccl.get_last_error);
  library.find("ncclGetVersion", nccl.get_version);
  library.find("ncclGroupStart", nccl.group_start);
  library.find("ncclGroupEnd", nccl.group_end);
  library.find("ncclAllReduce", nccl.all_reduce);
  library.find("ncclAllGather", nccl.all_gather);
  library.find("ncclReduceScatter", nccl.reduce_scatter);
  library.find("ncclReduce", nccl.reduce);
  library.find("ncclBroadcast", nccl.broadcast);
  library.find("ncclSend", nccl.send);
  library.find("ncclRecv", nccl.recv);
  // Only the registration of buffers needs these functions. NCCL versions before 2.19 lack them.
  library.find_optional("ncclMemAlloc", nccl.mem_alloc);
  library.find_optional("ncclMemFree", nccl.mem_free);
  library.find_optional("ncclCommRegister", nccl.comm_register);
  library.find_optional("ncclCommDeregister", nccl.comm_deregister);
  library.find_optional("ncclCommWindowRegister", nccl.comm_window_register);
  library.find_optional("ncclCommWindowDeregister", nccl.comm_window_deregister);
  log_version(nccl, library.path());
  return nccl;
}

}  // namespace

const NcclLibrary& nccl() {
  static const NcclLibrary library = load();
  return library;
}

void check_nccl(ncclResult_t result, ncclComm_t communicator, const char* call,
                SourceLocation where) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw CommunicationError(
      fmt::format("NCCL's {} failed: {} ({}), at {}:{}", call, nccl().get_error_string(result),
                  nccl().get_last_error(communicator), where.file_name(), where.line()));
}

}  // namespace horo::collectives
