#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "collectives/collectives.h"
#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"
#include "horo/device/device.h"

namespace horo::collectives {

/// Collectives on device memory. A call enqueues the collective, and the stream executes it in
/// order with its other work. All ranks of the group must call the same collectives in the same
/// order with matching arguments. The calling thread does not wait for other ranks, except that
/// NCCL waits when it connects to peers at the first use. failure() reports an error during
/// execution. After such an error, the stream either fails or continues with undefined data. Only
/// one thread at a time may call the functions, except failure() and abort(). Buffers must stay
/// valid until the stream has executed the collective.
class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Whether the collectives may be captured into a graph (Device::capture()).
  virtual bool can_be_captured() const { return true; }
  /// Allocates `bytes` of memory of `device`, of the kind with which the collectives are fastest.
  /// Blocks. Collective over `control`, which connects the ranks: all ranks must call this function
  /// with equal `bytes`. If the allocation fails on a rank, only that rank throws DeviceError, like
  /// Device::allocate(). The caller must free the memory before it destroys this object, and after
  /// all work on the memory is complete.
  virtual device::Memory allocate_buffer(device::Device& device, std::size_t bytes,
                                         Collectives& /*control*/) {
    return bytes == 0 ? device::Memory() : device.allocate(bytes);
  }
  /// Makes collectives on the range as fast as on the result of allocate_buffer(), if that is
  /// possible on all ranks: if the range belongs to a block of allocate_exchange_memory()
  /// (connect_gpus.h). It is fastest if the blocks have equal sizes and the range starts at the
  /// same offset on all ranks. A second call for a range of the same block does nothing. Blocks.
  /// Collective over `control`, which connects the ranks: all ranks must call this function with
  /// the corresponding range. Returns on all ranks whether the range is registered. If it is not,
  /// collectives use the range like any other memory. The caller may free the block before or after
  /// it destroys this object, when all work on the block is complete and no other thread calls this
  /// object.
  virtual bool register_memory(const void* /*data*/, std::size_t /*bytes*/,
                               Collectives& /*control*/) {
    return false;
  }

  /// Reduces `count` elements in place. `op` must be elementwise. For bool, it must not be
  /// kAverage. NCCL throws InvalidArgument for 16-bit integers.
  virtual void allreduce(void* data, DataType type, std::size_t count, ReduceOp op,
                         device::Stream& stream) = 0;
  /// Elements that allreduce_parts() reduces in place.
  struct Part {
    void* data;
    std::size_t count;
  };
  /// Has the result of an allreduce() of each part, in order. NCCL runs all parts in one group, at
  /// the cost of about one call.
  virtual void allreduce_parts(std::span<const Part> parts, DataType type, ReduceOp op,
                               device::Stream& stream) {
    for (const Part& part : parts) allreduce(part.data, type, part.count, op, stream);
  }
  virtual void broadcast(void* data, std::size_t bytes, int root, device::Stream& stream) = 0;
  /// Concatenates the inputs of the ranks in `output`, in rank order. bytes_of[r] is the size of
  /// the input of rank r.
  virtual void allgather(const void* input, std::span<const std::size_t> bytes_of, void* output,
                         device::Stream& stream) = 0;
  /// Reduces sum(count_of) elements and writes the part of this rank to `output`. See
  /// Collectives::reduce_scatter(), and allreduce() for `type` and `op`.
  virtual void reduce_scatter(const void* input, DataType type,
                              std::span<const std::size_t> count_of, void* output, ReduceOp op,
                              device::Stream& stream) = 0;
  /// See Collectives::alltoall().
  virtual void alltoall(const void* input, std::span<const std::size_t> bytes_to, void* output,
                        std::span<const std::size_t> bytes_from, device::Stream& stream) = 0;

  /// Returns the error of a failed collective, if any. Does not block. Thread-safe.
  virtual std::optional<std::string> failure() const = 0;
  /// Makes the collectives in flight end early. Their results are undefined. Thread-safe.
  virtual void abort(const std::string& reason) noexcept = 0;
};

/// The collectives of a group of one rank. Those with an input and an output copy the input to the
/// output. The others do nothing.
class LoneCollectives : public DeviceCollectives {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void allreduce(void*, DataType, std::size_t, ReduceOp, device::Stream&) override {}
  void broadcast(void*, std::size_t, int, device::Stream&) override {}
  void allgather(const void* input, std::span<const std::size_t> bytes_of, void* output,
                 device::Stream& stream) override {
    if (input != output) stream.copy(output, input, bytes_of[0]);
  }
  void reduce_scatter(const void* input, DataType type, std::span<const std::size_t> count_of,
                      void* output, ReduceOp, device::Stream& stream) override {
    stream.copy(output, input, count_of[0] * size_of(type));
  }
  void alltoall(const void* input, std::span<const std::size_t> bytes_to, void* output,
                std::span<const std::size_t>, device::Stream& stream) override {
    stream.copy(output, input, bytes_to[0]);
  }
  std::optional<std::string> failure() const override { return std::nullopt; }
  void abort(const std::string&) noexcept override {}
};

}  // namespace horo::collectives
