// The functions of NCCL.
#include <nccl.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/fakes/cuda/capture.h"
#include "tests/fakes/cuda/handles.h"
#include "tests/fakes/cuda/memory.h"
#include "tests/fakes/cuda/violation.h"
#include "tests/fakes/nccl/communicator.h"
#include "tests/fakes/nccl/reduction.h"

namespace horo::fakes {
namespace {

Handles<ncclComm>& communicators() {
  static auto* handles = new Handles<ncclComm>("communicator");
  return *handles;
}

// The calls of the group that this thread has opened.
struct OpenGroup {
  int depth = 0;
  std::map<std::shared_ptr<ncclComm>, std::vector<Collective>> calls;
};
thread_local OpenGroup open_group;  // NOLINT: as in NCCL, groups belong to threads

ncclResult_t submit_group() {
  ncclResult_t result = ncclSuccess;
  for (const auto& [comm, calls] : std::exchange(open_group.calls, {})) {
    const ncclResult_t own = comm->begin([comm = comm.get(), calls = calls] {
      comm->submit(calls);
      return true;
    });
    if (own != ncclSuccess) result = own;
  }
  return result;
}

Description describe(const char* call, std::size_t count, ncclDataType_t type, int operation,
                     int root) {
  Description description{{}, operation, type, root, count};
  std::strncpy(description.call, call, sizeof description.call - 1);
  return description;
}

ncclResult_t add(ncclComm_t handle, const Collective& call) {
  const char* const name = call.description.call;
  enter(name);
  const std::shared_ptr<ncclComm> comm = communicators().get(name, handle);
  comm->require_usable(name);
  Memory::of_process().require_live({name, comm->place}, call.input, call.input_bytes);
  Memory::of_process().require_live({name, comm->place}, call.output, call.output_bytes);
  if (call.description.root >= comm->size) violation(name, comm->place, "there is no such rank");
  open_group.calls[comm].push_back(call);
  return open_group.depth > 0 ? ncclSuccess : submit_group();
}

ncclResult_t end(const char* call, ncclComm_t handle, bool is_abort) {
  enter(call);
  const auto comm = communicators().remove(call, handle);
  comm->require_name(call);
  if (!is_abort) comm->require_usable(call);
  comm->group.abort();
  comm->await_uses();
  comm->require_name(call);
  return ncclSuccess;
}

}  // namespace
}  // namespace horo::fakes

using namespace horo::fakes;  // NOLINT

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t) { return "an error of the fake NCCL"; }
const char* ncclGetLastError(ncclComm_t) { return "no more"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  enter("ncclGetUniqueId");
  *id = {};
  SharedGroup::create().copy(id->internal, sizeof id->internal - 1);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  enter("ncclCommInitRankConfig");
  const auto comm = std::make_shared<ncclComm>(id.internal, rank, size, *config);
  *handle = communicators().add(comm);
  return comm->begin([comm = comm.get()] { return comm->group.is_complete(); });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* state) {
  enter("ncclCommGetAsyncError");
  const auto comm = communicators().get("ncclCommGetAsyncError", handle);
  comm->require_name("ncclCommGetAsyncError");
  *state = comm->poll();
  return ncclSuccess;
}

// Other ranks may also abort, instead of this call.
ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  enter("ncclCommFinalize");
  const auto comm = communicators().get("ncclCommFinalize", handle);
  comm->require_usable("ncclCommFinalize");
  comm->group.announce(describe("ncclCommFinalize", 0, ncclInt8, 0, 0));
  return comm->begin([comm = comm.get()] { return comm->group.is_agreed(); });
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) { return end("ncclCommDestroy", handle, false); }
ncclResult_t ncclCommAbort(ncclComm_t handle) { return end("ncclCommAbort", handle, true); }

ncclResult_t ncclGroupStart() {
  enter("ncclGroupStart");
  ++open_group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  enter("ncclGroupEnd");
  if (open_group.depth == 0) violation("ncclGroupEnd", "this thread", "no group is open");
  return --open_group.depth > 0 ? ncclSuccess : submit_group();
}

ncclResult_t ncclAllReduce(const void* input, void* output, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  return add(comm,
             {describe("ncclAllReduce", count, type, op, 0), input, output, bytes, bytes, stream});
}

ncclResult_t ncclAllGather(const void* input, void* output, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  const auto ranks = static_cast<std::size_t>(communicators().get("ncclAllGather", comm)->size);
  return add(comm, {describe("ncclAllGather", count, type, 0, 0), input, output, bytes,
                    ranks * bytes, stream});
}

ncclResult_t ncclReduceScatter(const void* input, void* output, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  const auto ranks = static_cast<std::size_t>(communicators().get("ncclReduceScatter", comm)->size);
  return add(comm, {describe("ncclReduceScatter", count, type, op, 0), input, output, ranks * bytes,
                    bytes, stream});
}

ncclResult_t ncclReduce(const void* input, void* output, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  const bool is_root = communicators().get("ncclReduce", comm)->rank == root;
  return add(comm, {describe("ncclReduce", count, type, op, root), input,
                    is_root ? output : nullptr, bytes, is_root ? bytes : 0, stream});
}

ncclResult_t ncclBroadcast(const void* input, void* output, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  const bool is_root = communicators().get("ncclBroadcast", comm)->rank == root;
  return add(comm, {describe("ncclBroadcast", count, type, 0, root), is_root ? input : nullptr,
                    output, is_root ? bytes : 0, bytes, stream});
}

ncclResult_t ncclSend(const void* input, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add(comm, {describe("ncclSend", count, type, 0, peer), input, nullptr,
                    count * size_of(type), 0, stream});
}

ncclResult_t ncclRecv(void* output, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(comm, {describe("ncclRecv", count, type, 0, peer), nullptr, output, 0,
                    count * size_of(type), stream});
}

ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  enter("ncclMemAlloc");
  require_no_capture("ncclMemAlloc");
  *memory = Memory::of_process().allocate(bytes, MemoryKind::kNccl, "ncclMemAlloc");
  return *memory == nullptr ? ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t ncclMemFree(void* memory) {
  enter("ncclMemFree");
  require_no_capture("ncclMemFree");
  require_unused("ncclMemFree", memory);
  Memory::of_process().free(memory, MemoryKind::kNccl, "ncclMemFree");
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t handle, void* memory, size_t bytes,
                              void** registration) {
  enter("ncclCommRegister");
  const auto comm = communicators().get("ncclCommRegister", handle);
  comm->require_usable("ncclCommRegister");
  Memory::of_process().require_live({"ncclCommRegister", comm->place}, memory, bytes);
  *registration = comm->add_registration("ncclCommRegister", memory);
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t handle, void* registration) {
  enter("ncclCommDeregister");
  communicators()
      .get("ncclCommDeregister", handle)
      ->remove_registration("ncclCommDeregister", registration);
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t handle, void* memory, size_t bytes,
                                    ncclWindow_t* window, int flags) {
  const char* const call = "ncclCommWindowRegister";
  enter(call);
  const auto comm = communicators().get(call, handle);
  comm->require_usable(call);
  Memory::of_process().require_live({call, comm->place}, memory, bytes);
  if (const MemoryKind* kind = Memory::of_process().kind_of(memory);
      kind == nullptr || *kind != MemoryKind::kNccl)
    violation(call, comm->place, "the memory is not of ncclMemAlloc");
  comm->group.announce(describe(call, bytes, ncclInt8, flags, 0));
  return comm->begin([comm = comm.get(), memory, window, call] {
    if (!comm->group.is_agreed()) return false;
    *window = static_cast<ncclWindow_t>(comm->add_registration(call, memory));
    return true;
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t handle, ncclWindow_t window) {
  enter("ncclCommWindowDeregister");
  communicators()
      .get("ncclCommWindowDeregister", handle)
      ->remove_registration("ncclCommWindowDeregister", window);
  return ncclSuccess;
}

}  // extern "C"
