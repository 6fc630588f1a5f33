#include "collectives/nccl/nccl_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/nccl/connect_gpus.h"
#include "collectives/nccl/nccl_buffers.h"
#include "collectives/nccl/nccl_library.h"
#include "horo/base/error.h"
#include "horo/base/log.h"

namespace horo::collectives {
namespace {

cudaStream_t native(const device::Stream& stream) {
  return static_cast<cudaStream_t>(stream.native());
}

ncclDataType_t nccl_type(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return ncclFloat64;
    case DataType::kFloat16:
      return ncclFloat16;
    case DataType::kBFloat16:
      return ncclBfloat16;
    case DataType::kInt8:
      return ncclInt8;
    case DataType::kUInt8:
    case DataType::kBool:
      return ncclUint8;
    case DataType::kInt32:
      return ncclInt32;
    case DataType::kInt64:
      return ncclInt64;
    case DataType::kInt16:
    case DataType::kUInt16:
      throw InvalidArgument(fmt::format(
          "NCCL cannot reduce {}: convert the tensor to int32, or reduce it in host memory",
          name_of(type)));
    case DataType::kFloat32:
      break;
  }
  return ncclFloat32;
}

ncclRedOp_t nccl_op(DataType type, ReduceOp op) {
  // A bool is a byte with value 0 or 1. The sum of bools is therefore their maximum, and the
  // product is their minimum. Callers reject the average.
  if (type == DataType::kBool)
    return op == ReduceOp::kSum || op == ReduceOp::kMax ? ncclMax : ncclMin;
  switch (op) {
    case ReduceOp::kAverage:
      return ncclAvg;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kProduct:
      return ncclProd;
    case ReduceOp::kSum:
      break;
    case ReduceOp::kAdasum:
      throw InvalidArgument("Adasum is not supported by NCCL; use sum or average on device memory");
  }
  return ncclSum;
}

bool are_equal(std::span<const std::size_t> sizes) {
  return std::ranges::all_of(sizes, [&](std::size_t size) { return size == sizes.front(); });
}

// Issues `calls` as one NCCL group.
void group(ncclComm_t communicator, const std::function<void()>& calls) {
  HORO_NCCL(communicator, group_start);
  calls();
  HORO_NCCL(communicator, group_end);
}

bool holds_on_all(Collectives& control, bool holds) {
  std::int32_t least = holds ? 1 : 0;
  control.allreduce({DataType::kInt32, &least, 1}, ReduceOp::kMin);
  return least == 1;
}

void log_unregistered_buffers(const std::string& obstacle) {
  static std::once_flag is_logged;
  std::call_once(is_logged, [&] {
    log_info("NCCL uses staging buffers: horo's buffers are not registered ({})", obstacle);
  });
}

// Returns, on all ranks, the id that rank 0 creates. Throws on all ranks if any rank cannot load
// NCCL or rank 0 cannot create an id.
ncclUniqueId agree_on_id(Collectives& control, int rank) {
  ncclUniqueId id{};
  std::string obstacle;
  try {
    nccl();
    if (rank == 0) HORO_NCCL(nullptr, get_unique_id, &id);
  } catch (const Error& error) {
    obstacle = error.what();
  }
  // The ranks exchange their results before the broadcast, so no rank waits for an id that does not
  // exist.
  const bool all_are_able = holds_on_all(control, obstacle.empty());
  if (!obstacle.empty()) throw DeviceError(obstacle);
  if (!all_are_able) throw DeviceError("another rank cannot use NCCL; its error states the reason");
  control.broadcast({DataType::kUInt8, &id, sizeof id}, 0);
  return id;
}

// Runs `end` in a detached thread and waits at most kLimit for it to return. After the limit, `end`
// continues in that thread. Without the limit, the ranks could deadlock: a call that ends a
// communicator may block until other ranks make the same call, and these ranks may wait for this
// rank elsewhere.
void end_within_limit(std::function<void()> end) noexcept {
  constexpr std::chrono::seconds kLimit{2};
  try {
    auto ended = std::make_shared<std::promise<void>>();
    const std::future<void> future = ended->get_future();
    std::thread([ended, end = std::move(end)] {
      end();
      ended->set_value();
    }).detach();
    if (future.wait_for(kLimit) != std::future_status::ready)
      log_debug("the NCCL communicator ends in the background, as it waits for other ranks");
  } catch (const std::exception& error) {
    log_warning("cannot end the NCCL communicator: {}", error.what());
  }
}

// Finalizes and destroys the communicator. The finalization may wait until the other ranks also
// finalize. If it fails, aborts the communicator instead of destroying it.
void close(ncclComm_t communicator) noexcept {
  ncclResult_t state = nccl().comm_finalize(communicator);
  while (state == ncclInProgress) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (nccl().comm_get_async_error(communicator, &state) != ncclSuccess) state = ncclSystemError;
  }
  if (state == ncclSuccess)
    nccl().comm_destroy(communicator);
  else
    nccl().comm_abort(communicator);
}

}  // namespace

struct NcclCollectives::Handle {
  ncclComm_t communicator = nullptr;
  std::shared_ptr<NcclBuffers> buffers;  // null until all ranks have joined the communicator

  // Ends the communicator with `how`. The thread that runs `how` keeps the registered buffers alive
  // until `how` returns.
  void end(void (*how)(ncclComm_t)) const noexcept {
    std::vector<std::shared_ptr<void>> kept;
    if (buffers != nullptr) kept = buffers->release();
    end_within_limit([own = communicator, how, kept = std::move(kept)] { how(own); });
  }
};

NcclCollectives::NcclCollectives(Collectives& control, int rank, int size, const std::string& name,
                                 const WaitPolicy& policy)
    : rank_(rank), size_(size), policy_(policy), handle_(std::make_unique<Handle>()) {
  const ncclUniqueId id = agree_on_id(control, rank);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  // Calls on a nonblocking communicator return ncclInProgress instead of waiting for a peer. This
  // thread can then time out, and abort() can lock mutex_.
  config.blocking = 0;
  config.commName = name.c_str();
  try {
    HORO_NCCL(nullptr, comm_init_rank_config, &handle_->communicator, size, id, rank, &config);
    std::unique_lock lock(mutex_);
    await_readiness(lock, "for all ranks to join NCCL's communicator");
    handle_->buffers = std::make_shared<NcclBuffers>(handle_->communicator);
  } catch (...) {
    abort("its creation failed");
    throw;
  }
}

NcclCollectives::~NcclCollectives() {
  const std::scoped_lock lock(mutex_);
  if (handle_->communicator == nullptr || !abort_reason_.empty()) return;
  handle_->end([](ncclComm_t communicator) { close(communicator); });
}

// Waits until the communicator has processed the latest call. Releases `lock` during each pause, so
// that abort() can end the communicator meanwhile.
void NcclCollectives::await_readiness(std::unique_lock<std::mutex>& lock, const char* what) {
  for (Waiter waiter(policy_);;) {
    ncclResult_t state = ncclInProgress;
    HORO_NCCL(handle_->communicator, comm_get_async_error, handle_->communicator, &state);
    if (state != ncclInProgress)
      return check_nccl(state, handle_->communicator, "asynchronous call");
    lock.unlock();
    waiter.pause(what);
    lock.lock();
    require_usable();
  }
}

void NcclCollectives::require_usable() const {
  if (!abort_reason_.empty()) throw CommunicationError(abort_reason_);
}

// The caller must keep the returned lock while it calls NCCL. Otherwise abort() could end the
// communicator meanwhile.
std::unique_lock<std::mutex> NcclCollectives::use() const {
  std::unique_lock lock(mutex_);
  require_usable();
  return lock;
}

// Registration helps only if the buffers of all ranks are registered. If one rank fails to register
// its buffer, all other ranks therefore deregister theirs.
device::Memory NcclCollectives::allocate_buffer(device::Device& device, std::size_t bytes,
                                                Collectives& control) {
  if (bytes == 0 || size_ == 1) return DeviceCollectives::allocate_buffer(device, bytes, control);
  device.make_current();
  std::string obstacle;
  std::shared_ptr<void> memory = NcclBuffers::allocate(bytes, obstacle);
  const bool is_known = memory != nullptr && handle_->buffers->add(memory, bytes, obstacle);
  if (!holds_on_all(control, is_known)) {
    if (is_known) {
      handle_->buffers->remove(memory.get());
      obstacle = "the buffer of another rank is not";
    }
    log_unregistered_buffers(obstacle);
  }
  if (memory == nullptr) return device.allocate(bytes);
  return handle_->buffers->own(std::move(memory), bytes);
}

void NcclCollectives::allreduce(void* data, DataType type, std::size_t count, ReduceOp op,
                                device::Stream& stream) {
  std::unique_lock<std::mutex> lock = use();
  const ncclRedOp_t combine = nccl_op(type, op);
  if (size_ == 1 || count == 0) return;
  HORO_NCCL(handle_->communicator, all_reduce, data, data, count, nccl_type(type), combine,
            handle_->communicator, native(stream));
  await_readiness(lock, "for NCCL to begin an allreduce");
}

void NcclCollectives::broadcast(void* data, std::size_t bytes, int root, device::Stream& stream) {
  std::unique_lock<std::mutex> lock = use();
  if (size_ == 1 || bytes == 0) return;
  HORO_NCCL(handle_->communicator, broadcast, data, data, bytes, ncclUint8, root,
            handle_->communicator, native(stream));
  await_readiness(lock, "for NCCL to begin a broadcast");
}

void NcclCollectives::allgather(const void* input, std::span<const std::size_t> bytes_of,
                                void* output, device::Stream& stream) {
  std::unique_lock<std::mutex> lock = use();
  auto* place = static_cast<std::byte*>(output);
  if (size_ == 1) {
    if (input != output) stream.copy(output, input, bytes_of[0]);
    return;
  }
  if (are_equal(bytes_of)) {
    HORO_NCCL(handle_->communicator, all_gather, input, output, bytes_of[0], ncclUint8,
              handle_->communicator, native(stream));
  } else {
    group(handle_->communicator, [&] {
      // ncclAllGather requires equal sizes.
      for (int r = 0; r < size_; place += bytes_of[static_cast<std::size_t>(r)], ++r)
        HORO_NCCL(handle_->communicator, broadcast, r == rank_ ? input : place, place,
                  bytes_of[static_cast<std::size_t>(r)], ncclUint8, r, handle_->communicator,
                  native(stream));
    });
  }
  await_readiness(lock, "for NCCL to begin an allgather");
}

void NcclCollectives::reduce_scatter(const void* input, DataType type,
                                     std::span<const std::size_t> count_of, void* output,
                                     ReduceOp op, device::Stream& stream) {
  std::unique_lock<std::mutex> lock = use();
  const ncclRedOp_t combine = nccl_op(type, op);
  if (size_ == 1) return stream.copy(output, input, count_of[0] * size_of(type));
  if (are_equal(count_of)) {
    HORO_NCCL(handle_->communicator, reduce_scatter, input, output, count_of[0], nccl_type(type),
              combine, handle_->communicator, native(stream));
  } else {
    const auto* part = static_cast<const std::byte*>(input);
    group(handle_->communicator, [&] {
      for (int r = 0; r < size_; ++r) {
        const std::size_t count = count_of[static_cast<std::size_t>(r)];
        HORO_NCCL(handle_->communicator, reduce, part, output, count, nccl_type(type), combine, r,
                  handle_->communicator, native(stream));
        part += count * size_of(type);
      }
    });
  }
  await_readiness(lock, "for NCCL to begin a reduce_scatter");
}

void NcclCollectives::alltoall(const void* input, std::span<const std::size_t> bytes_to,
                               void* output, std::span<const std::size_t> bytes_from,
                               device::Stream& stream) {
  std::unique_lock<std::mutex> lock = use();
  if (size_ == 1) return stream.copy(output, input, bytes_to[0]);
  // In one group, NCCL runs all sends and receives together. Separate calls on one stream could
  // deadlock, because each would wait for its peer.
  const auto* from = static_cast<const std::byte*>(input);
  auto* to = static_cast<std::byte*>(output);
  group(handle_->communicator, [&] {
    for (int r = 0; r < size_; ++r) {
      const std::size_t out = bytes_to[static_cast<std::size_t>(r)];
      const std::size_t in = bytes_from[static_cast<std::size_t>(r)];
      if (out > 0)
        HORO_NCCL(handle_->communicator, send, from, out, ncclUint8, r, handle_->communicator,
                  native(stream));
      if (in > 0)
        HORO_NCCL(handle_->communicator, recv, to, in, ncclUint8, r, handle_->communicator,
                  native(stream));
      from += out;
      to += in;
    }
  });
  await_readiness(lock, "for NCCL to begin an alltoall");
}

std::optional<std::string> NcclCollectives::failure() const {
  const std::scoped_lock lock(mutex_);
  if (!abort_reason_.empty()) return abort_reason_;
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = nccl().comm_get_async_error(handle_->communicator, &state);
  const ncclResult_t worst = asked == ncclSuccess ? state : asked;
  if (worst == ncclSuccess || worst == ncclInProgress) return std::nullopt;
  return std::string(nccl().get_error_string(worst)) + " (" +
         nccl().get_last_error(handle_->communicator) + ")";
}

// Another thread may call abort() while a collective waits in await_readiness(), because
// await_readiness() releases the mutex in its pauses. Only the first reason is kept.
void NcclCollectives::abort(const std::string& reason) noexcept {
  const std::scoped_lock lock(mutex_);
  if (!abort_reason_.empty()) return;
  abort_reason_ = "the NCCL communicator was aborted: " + reason;
  if (handle_->communicator == nullptr) return;
  handle_->end([](ncclComm_t communicator) { nccl().comm_abort(communicator); });
}

std::unique_ptr<DeviceCollectives> connect_gpus(Collectives& control, int rank, int size,
                                                const std::string& name, const WaitPolicy& policy) {
  return std::make_unique<NcclCollectives>(control, rank, size, name, policy);
}

}  // namespace horo::collectives
