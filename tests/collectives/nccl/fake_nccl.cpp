#include "tests/collectives/nccl/fake_nccl.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <set>

struct ncclComm {
  int rank;
  ncclConfig_t config;
  bool is_finalizing = false;
  int registrations = 0, windows = 0;
};

namespace horo::fake_nccl {
namespace {

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  Options options;
  std::vector<Call> calls;
  std::vector<std::string> names;
  ncclConfig_t config{};
  int communicators = 0;
  std::set<void*> blocks;
  int registrations = 0, windows = 0;
};

State& state() {
  static auto* state = new State;  // threads of NCCL may outlive exit()
  return *state;
}

thread_local int depth = 0;  // NOLINT: as in NCCL, groups belong to threads

ncclResult_t note(const char* function, ncclComm_t communicator, std::size_t count) {
  const std::scoped_lock lock(state().mutex);
  if (state().options.failing == function) return ncclInternalError;
  state().calls.push_back({function, communicator->rank, count, depth > 0});
  return communicator->config.blocking == 1 ? ncclSuccess : ncclInProgress;
}

ncclResult_t end(ncclComm_t communicator, const char* function) {
  const std::scoped_lock lock(state().mutex);
  state().calls.push_back({function, communicator->rank, 0, false});
  state().names.emplace_back(communicator->config.commName);
  --state().communicators;
  state().registrations -= communicator->registrations;
  state().windows -= communicator->windows;
  delete communicator;
  state().changed.notify_all();
  return ncclSuccess;
}

}  // namespace

void set(const Options& options) {
  const std::scoped_lock lock(state().mutex);
  state().options = options;
  state().changed.notify_all();
}

void reset(const Options& options) {
  set(options);
  const std::scoped_lock lock(state().mutex);
  state().calls.clear();
  state().names.clear();
}

std::vector<Call> calls() {
  const std::scoped_lock lock(state().mutex);
  return state().calls;
}

std::size_t count_of(const std::string& function) {
  return static_cast<std::size_t>(std::ranges::count(calls(), function, &Call::function));
}

std::vector<std::string> names_at_end() {
  const std::scoped_lock lock(state().mutex);
  return state().names;
}

ncclConfig_t latest_config() {
  const std::scoped_lock lock(state().mutex);
  return state().config;
}

int communicators() {
  const std::scoped_lock lock(state().mutex);
  return state().communicators;
}

int group_depth() { return depth; }

int blocks() {
  const std::scoped_lock lock(state().mutex);
  return static_cast<int>(state().blocks.size());
}

int registrations() {
  const std::scoped_lock lock(state().mutex);
  return state().registrations;
}

int windows() {
  const std::scoped_lock lock(state().mutex);
  return state().windows;
}

bool await_end(std::chrono::milliseconds limit) {
  std::unique_lock lock(state().mutex);
  return state().changed.wait_for(lock, limit, [] { return state().communicators == 0; });
}

}  // namespace horo::fake_nccl

using horo::fake_nccl::depth;
using horo::fake_nccl::end;
using horo::fake_nccl::note;
using horo::fake_nccl::state;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = {};
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t) { return "an error of the fake"; }
const char* ncclGetLastError(ncclComm_t) { return "no more"; }

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int, ncclUniqueId, int rank,
                                    ncclConfig_t* config) {
  *communicator = new ncclComm{rank, *config};
  const std::scoped_lock lock(state().mutex);
  state().config = *config;
  ++state().communicators;
  return config->blocking == 1 ? ncclSuccess : ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  const std::scoped_lock lock(state().mutex);
  *error =
      communicator->is_finalizing && !state().options.can_finalize ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  const std::scoped_lock lock(state().mutex);
  communicator->is_finalizing = true;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) { return end(communicator, "CommDestroy"); }

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  {
    std::unique_lock lock(state().mutex);
    state().changed.wait(lock, [] { return !state().options.has_graphs; });
  }
  return end(communicator, "CommAbort");
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  --depth;
  return ncclInProgress;
}

ncclResult_t ncclAllReduce(const void*, void*, size_t count, ncclDataType_t, ncclRedOp_t,
                           ncclComm_t communicator, cudaStream_t) {
  return note("AllReduce", communicator, count);
}

ncclResult_t ncclAllGather(const void*, void*, size_t count, ncclDataType_t,
                           ncclComm_t communicator, cudaStream_t) {
  return note("AllGather", communicator, count);
}

ncclResult_t ncclReduceScatter(const void*, void*, size_t count, ncclDataType_t, ncclRedOp_t,
                               ncclComm_t communicator, cudaStream_t) {
  return note("ReduceScatter", communicator, count);
}

ncclResult_t ncclReduce(const void*, void*, size_t count, ncclDataType_t, ncclRedOp_t, int,
                        ncclComm_t communicator, cudaStream_t) {
  return note("Reduce", communicator, count);
}

ncclResult_t ncclBroadcast(const void*, void*, size_t count, ncclDataType_t, int,
                           ncclComm_t communicator, cudaStream_t) {
  return note("Broadcast", communicator, count);
}

ncclResult_t ncclSend(const void*, size_t count, ncclDataType_t, int, ncclComm_t communicator,
                      cudaStream_t) {
  return note("Send", communicator, count);
}

ncclResult_t ncclRecv(void*, size_t count, ncclDataType_t, int, ncclComm_t communicator,
                      cudaStream_t) {
  return note("Recv", communicator, count);
}

ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  const std::scoped_lock lock(state().mutex);
  state().blocks.insert(*memory);
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void* memory) {
  const std::scoped_lock lock(state().mutex);
  if (state().blocks.erase(memory) == 0) return ncclInvalidArgument;
  std::free(memory);
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t communicator, void* memory, size_t bytes,
                              void** handle) {
  *handle = nullptr;
  const ncclResult_t result = note("CommRegister", communicator, bytes);
  const std::scoped_lock lock(state().mutex);
  if (result == ncclInternalError || !state().options.can_register) return ncclInternalError;
  ++state().registrations;
  ++communicator->registrations;
  *handle = memory;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t communicator, void* handle) {
  if (handle == nullptr) return ncclInvalidArgument;
  const std::scoped_lock lock(state().mutex);
  --state().registrations;
  --communicator->registrations;
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t communicator, void* memory, size_t bytes,
                                    ncclWindow_t* window, int flags) {
  if (flags != NCCL_WIN_COLL_SYMMETRIC) return ncclInvalidArgument;
  const ncclResult_t result = note("CommWindowRegister", communicator, bytes);
  if (result == ncclInternalError) return result;
  const std::scoped_lock lock(state().mutex);
  if (!state().options.has_windows || state().options.rank_without_windows == communicator->rank)
    return result;
  ++state().windows;
  ++communicator->windows;
  *window = static_cast<ncclWindow_t>(memory);
  return result;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t communicator, ncclWindow_t window) {
  if (window == nullptr) return ncclInvalidArgument;
  const std::scoped_lock lock(state().mutex);
  --state().windows;
  --communicator->windows;
  return ncclSuccess;
}

}  // extern "C"
