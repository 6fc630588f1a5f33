#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "collectives/collectives.h"
#include "horo/base/data_type.h"
#include "horo/base/device/device.h"
#include "horo/base/reduce_op.h"

namespace horo::collectives {

/// Collectives on device memory, each done in the order of the stream that it is given to. Every
/// function is collective: all ranks of the group call the same sequence with matching arguments.
/// None waits for the device or for peers. What fails there shows in failure(); a stream may end
/// with it, as the stand-in's do, or go on with data of any values, as a GPU's does when NCCL gives
/// up. Called from one thread at a time, but for failure() and abort(). Buffers are kept until the
/// stream has passed the collective.
class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Whether what they give to a stream may be captured into a graph (Device::capture()).
  virtual bool can_be_captured() const { return true; }
  /// `bytes` of memory of `device`, the same on all ranks, of the kind that collectives are fastest
  /// in. Blocks; collective over `control`, which connects the ranks for the moment, also where a
  /// rank gets none. The memory is freed before this goes, once its streams are done. Throws
  /// DeviceError as Device::allocate() does, on the rank that has too little.
  virtual device::Memory allocate_buffer(device::Device& device, std::size_t bytes,
                                         Collectives& /*control*/) {
    return bytes == 0 ? device::Memory() : device.allocate(bytes);
  }

  /// Reduces `count` elements in place; `op` is elementwise.
  virtual void allreduce(void* data, DataType type, std::size_t count, ReduceOp op,
                         device::Stream& stream) = 0;
  virtual void broadcast(void* data, std::size_t bytes, int root, device::Stream& stream) = 0;
  /// Puts the ranks' inputs one after the other into `output`; bytes_of[r] is rank r's.
  virtual void allgather(const void* input, std::span<const std::size_t> bytes_of, void* output,
                         device::Stream& stream) = 0;
  /// Reduces sum(count_of) elements and leaves this rank's count_of in `output`, as
  /// Collectives::reduce_scatter().
  virtual void reduce_scatter(const void* input, DataType type,
                              std::span<const std::size_t> count_of, void* output, ReduceOp op,
                              device::Stream& stream) = 0;
  /// As Collectives::alltoall().
  virtual void alltoall(const void* input, std::span<const std::size_t> bytes_to, void* output,
                        std::span<const std::size_t> bytes_from, device::Stream& stream) = 0;

  /// What has gone wrong so far. Never blocks. Thread-safe.
  virtual std::optional<std::string> failure() const = 0;
  /// Gives up what is under way: it ends soon, with an error. Thread-safe.
  virtual void abort(const std::string& reason) noexcept = 0;
};

}  // namespace horo::collectives
