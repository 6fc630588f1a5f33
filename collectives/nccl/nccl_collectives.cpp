#include "collectives/nccl/nccl_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "collectives/nccl/connect_gpus.h"
#include "collectives/nccl/nccl_block.h"
#include "collectives/nccl/nccl_buffers.h"
#include "collectives/nccl/nccl_communicator.h"
#include "collectives/nccl/nccl_library.h"
#include "horo/base/error.h"
#include "horo/base/text/log.h"
#include "horo/device/host/host_device.h"

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

// Issues `calls` as one NCCL group. Closes the group even if a call throws. Otherwise, all later
// calls of NCCL on this thread would belong to the group and never start.
void group(ncclComm_t communicator, const std::function<void()>& calls) {
  HORO_NCCL(communicator, group_start);
  try {
    calls();
  } catch (...) {
    nccl().group_end();
    throw;
  }
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

}  // namespace

NcclCollectives::NcclCollectives(Collectives& control, int rank, int size, const std::string& name,
                                 const WaitPolicy& policy, const NcclOptions& options)
    : rank_(rank),
      size_(size),
      policy_(policy),
      communicator_(std::make_unique<NcclCommunicator>(name)) {
  const ncclUniqueId id = agree_on_id(control, rank);
  // Unless options.is_blocking, calls on the communicator return ncclInProgress instead of waiting
  // for a peer. This thread can then time out, and abort() can lock mutex_.
  try {
    communicator_->create(rank, size, id, options);
    std::unique_lock lock(mutex_);
    await_readiness(lock, "for all ranks to join NCCL's communicator");
  } catch (...) {
    abort("its creation failed");
    throw;
  }
}

// Waits for the thread that ends the communicator without mutex_, in the destructor of
// communicator_.
NcclCollectives::~NcclCollectives() {
  const std::scoped_lock lock(mutex_);
  communicator_->close(policy_.limit());
}

// Waits until the communicator has processed the latest call. Releases `lock` during each pause, so
// that abort() can end the communicator meanwhile.
void NcclCollectives::await_readiness(std::unique_lock<std::mutex>& lock, const char* what) {
  for (Waiter waiter(policy_);;) {
    ncclResult_t state = ncclInProgress;
    HORO_NCCL(communicator_->get(), comm_get_async_error, communicator_->get(), &state);
    if (state != ncclInProgress)
      return check_nccl(state, communicator_->get(), "asynchronous call");
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

device::Memory NcclCollectives::allocate_buffer(device::Device& device, std::size_t bytes,
                                                Collectives& control) {
  if (bytes == 0 || size_ == 1) return DeviceCollectives::allocate_buffer(device, bytes, control);
  device.make_current();
  std::string obstacle;
  const std::shared_ptr<NcclBlock> block = NcclBlock::allocate(bytes, obstacle);
  register_block(block, 0, obstacle, control);
  return block == nullptr ? device.allocate(bytes) : block->own();
}

bool NcclCollectives::register_memory(const void* data, std::size_t bytes, Collectives& control) {
  if (size_ == 1) return false;
  const std::shared_ptr<NcclBlock> block = NcclBlock::find(data, bytes);
  const std::ptrdiff_t offset =
      block == nullptr ? 0 : static_cast<const std::byte*>(data) - block->data();
  return register_block(block, static_cast<std::size_t>(offset),
                        "the memory is not of ncclMemAlloc", control);
}

// Registration helps only if the blocks of all ranks are registered in the same way. The ranks
// therefore agree before they create a window, which is a collective of NCCL, and after each
// attempt. Windows are used for corresponding addresses, so they need blocks of one shape.
bool NcclCollectives::register_block(const std::shared_ptr<NcclBlock>& block, std::size_t offset,
                                     std::string obstacle, Collectives& control) {
  NcclBuffers& buffers = *communicator_->buffers();
  enum : std::int64_t { kNone, kAlone, kWindow };
  struct {
    std::int64_t way = kNone, is_known = 0, bytes = 0, minus_bytes = 0, offset = 0,
                 minus_offset = 0;
  } least;  // the minimum over the ranks
  if (block != nullptr) {
    const auto own_bytes = static_cast<std::int64_t>(block->bytes());
    const auto own_offset = static_cast<std::int64_t>(offset);
    least = {NcclBuffers::has_windows(obstacle) ? kWindow : kAlone,
             buffers.contains(block->data()) ? 1 : 0,
             own_bytes,
             -own_bytes,
             own_offset,
             -own_offset};
  }
  std::int64_t was_known_anywhere = least.is_known;
  control.allreduce({DataType::kInt64, &least, sizeof least / sizeof(std::int64_t)},
                    ReduceOp::kMin);
  control.allreduce({DataType::kInt64, &was_known_anywhere, 1}, ReduceOp::kMax);
  if (least.way != kNone && least.is_known == 1) return true;
  const bool is_even = least.bytes == -least.minus_bytes && least.offset == -least.minus_offset;
  if (least.way == kWindow && (!is_even || was_known_anywhere == 1)) least.way = kAlone;
  for (; least.way > kNone; --least.way) {
    const bool was_known = buffers.contains(block->data());
    const bool is_known = was_known || (least.way == kWindow ? add_window(block, obstacle)
                                                             : buffers.add(block, obstacle));
    if (holds_on_all(control, is_known)) return true;
    if (is_known && !was_known) buffers.remove(block->data());
    if (is_known) obstacle = "the buffer of another rank is not";
  }
  log_unregistered_buffers(obstacle.empty() ? "the buffer of another rank is not" : obstacle);
  return false;
}

bool NcclCollectives::add_window(const std::shared_ptr<NcclBlock>& block, std::string& obstacle) {
  NcclBuffers& buffers = *communicator_->buffers();
  std::unique_lock<std::mutex> lock = use();
  const ncclResult_t result = buffers.add_window(block);
  if (result == ncclSuccess || result == ncclInProgress)
    await_readiness(lock, "for all ranks to register a buffer with NCCL");
  const bool is_made = buffers.settle_window(*block, obstacle);
  if (result != ncclSuccess && result != ncclInProgress)
    obstacle = std::string("ncclCommWindowRegister: ") + nccl().get_error_string(result);
  return is_made;
}

void NcclCollectives::allreduce(void* data, DataType type, std::size_t count, ReduceOp op,
                                device::Stream& stream) {
  std::unique_lock<std::mutex> lock = use();
  const ncclRedOp_t combine = nccl_op(type, op);
  if (size_ == 1 || count == 0) return;
  HORO_NCCL(communicator_->get(), all_reduce, data, data, count, nccl_type(type), combine,
            communicator_->get(), native(stream));
  await_readiness(lock, "for NCCL to begin an allreduce");
}

void NcclCollectives::allreduce_parts(std::span<const Part> parts, DataType type, ReduceOp op,
                                      device::Stream& stream) {
  const bool is_empty =
      std::ranges::all_of(parts, [](const Part& part) { return part.count == 0; });
  std::unique_lock<std::mutex> lock = use();
  const ncclDataType_t own_type = nccl_type(type);
  const ncclRedOp_t combine = nccl_op(type, op);
  if (size_ == 1 || is_empty) return;
  const ncclComm_t communicator = communicator_->get();
  group(communicator, [&] {
    for (const Part& part : parts)
      if (part.count > 0)
        HORO_NCCL(communicator, all_reduce, part.data, part.data, part.count, own_type, combine,
                  communicator, native(stream));
  });
  await_readiness(lock, "for NCCL to begin an allreduce");
}

void NcclCollectives::broadcast(void* data, std::size_t bytes, int root, device::Stream& stream) {
  std::unique_lock<std::mutex> lock = use();
  if (size_ == 1 || bytes == 0) return;
  HORO_NCCL(communicator_->get(), broadcast, data, data, bytes, ncclUint8, root,
            communicator_->get(), native(stream));
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
    HORO_NCCL(communicator_->get(), all_gather, input, output, bytes_of[0], ncclUint8,
              communicator_->get(), native(stream));
  } else {
    group(communicator_->get(), [&] {
      // ncclAllGather requires equal sizes.
      for (int r = 0; r < size_; place += bytes_of[static_cast<std::size_t>(r)], ++r)
        HORO_NCCL(communicator_->get(), broadcast, r == rank_ ? input : place, place,
                  bytes_of[static_cast<std::size_t>(r)], ncclUint8, r, communicator_->get(),
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
    HORO_NCCL(communicator_->get(), reduce_scatter, input, output, count_of[0], nccl_type(type),
              combine, communicator_->get(), native(stream));
  } else {
    const auto* part = static_cast<const std::byte*>(input);
    group(communicator_->get(), [&] {
      for (int r = 0; r < size_; ++r) {
        const std::size_t count = count_of[static_cast<std::size_t>(r)];
        HORO_NCCL(communicator_->get(), reduce, part, output, count, nccl_type(type), combine, r,
                  communicator_->get(), native(stream));
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
  group(communicator_->get(), [&] {
    for (int r = 0; r < size_; ++r) {
      const std::size_t out = bytes_to[static_cast<std::size_t>(r)];
      const std::size_t in = bytes_from[static_cast<std::size_t>(r)];
      if (out > 0)
        HORO_NCCL(communicator_->get(), send, from, out, ncclUint8, r, communicator_->get(),
                  native(stream));
      if (in > 0)
        HORO_NCCL(communicator_->get(), recv, to, in, ncclUint8, r, communicator_->get(),
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
  const ncclResult_t asked = nccl().comm_get_async_error(communicator_->get(), &state);
  const ncclResult_t worst = asked == ncclSuccess ? state : asked;
  if (worst == ncclSuccess || worst == ncclInProgress) return std::nullopt;
  return std::string(nccl().get_error_string(worst)) + " (" +
         nccl().get_last_error(communicator_->get()) + ")";
}

// Another thread may call abort() while a collective waits in await_readiness(), because
// await_readiness() releases the mutex in its pauses. Only the first reason is kept.
void NcclCollectives::abort(const std::string& reason) noexcept {
  const std::scoped_lock lock(mutex_);
  if (!abort_reason_.empty()) return;
  abort_reason_ = "the NCCL communicator was aborted: " + reason;
  communicator_->abort();
}

std::unique_ptr<DeviceCollectives> connect_gpus(Collectives& control, int rank, int size,
                                                const std::string& name, const WaitPolicy& policy,
                                                const NcclOptions& options) {
  return std::make_unique<NcclCollectives>(control, rank, size, name, policy, options);
}

device::Memory allocate_exchange_memory(device::Device& device, std::size_t bytes) {
  if (bytes > 0 && !device::is_host(device)) {
    device.make_current();
    try {
      std::string obstacle;
      if (const auto block = NcclBlock::allocate(bytes, obstacle)) return block->own();
      log_unregistered_buffers(obstacle);
    } catch (const DeviceError& error) {
      log_unregistered_buffers(error.what());  // NCCL cannot be loaded
    }
  }
  return device.allocate(bytes);
}

}  // namespace horo::collectives
