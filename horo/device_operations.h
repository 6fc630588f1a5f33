#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "horo/base/reduce_op.h"
#include "horo/base/tensor_view.h"
#include "horo/context.h"
#include "horo/device/device.h"
#include "horo/device_handle.h"

namespace horo {

/// The options of DeviceOperations. They must be equal on all ranks.
struct DeviceOperationsOptions {
  /// The size in bytes of each of two buffers on the device. It must be at least 4096. Allreduces
  /// that are ready at the same time can be fused in a buffer. Tensors that are larger than a
  /// buffer are reduced in parts. If unset, the size is HORO_BUCKET_BYTES, but at least 4096.
  std::optional<std::size_t> buffer_bytes;
  /// See DeviceGradientSyncOptions::chunk_bytes.
  std::size_t chunk_bytes = std::size_t{8} << 20;
};

/// The options of an operation. `name`, `prescale`, `postscale`, `root` and `splits` have the same
/// meaning as in the options of Context.
///
/// `stream` is the stream whose work computes the inputs. The operation starts after the work that
/// is enqueued on this stream at submission. `stream` is a cudaStream_t. With the host stand-in for
/// a GPU, it is device::Stream::native(). Null stands for the default stream of the GPU. The
/// stand-in has no default stream, so null throws InvalidArgument there.
struct DeviceAllreduceOptions {
  std::string name;
  ReduceOp op = ReduceOp::kAverage;  ///< any except kAdasum
  double prescale = 1.0;
  double postscale = 1.0;
  void* stream = nullptr;
};
struct DeviceBroadcastOptions {
  std::string name;
  int root = 0;
  void* stream = nullptr;
};
struct DeviceAllgatherOptions {
  std::string name;
  void* stream = nullptr;
};
struct DeviceReduceScatterOptions {
  std::string name;
  ReduceOp op = ReduceOp::kAverage;  ///< any except kAdasum
  void* stream = nullptr;
};
struct DeviceAlltoallOptions {
  std::string name;
  std::vector<std::size_t> splits;
  void* stream = nullptr;
};

/// Collectives of Context on tensors in device memory: allreduce, broadcast, allgather,
/// reduce_scatter and alltoall. Streams order them and the other work of the device, so the host
/// need not wait for the device.
///
///   const auto gpu = open_gpu(ctx);
///   DeviceOperations ops(ctx, *gpu);
///   DeviceHandle h = ops.allreduce_async(w, {.name = "w.grad", .stream = stream});
///   // ... other work of the host, and of the stream
///   h.wait_on(stream);   // later work of the stream starts after the operation
///
/// Ranks match operations by name, and every rank must submit every operation. The rules for their
/// order are those of Context. Every rank gets MismatchError if the operations, shapes, types,
/// reductions, scale factors or roots differ, or if a rank uses the same name for an operation on
/// host memory. Later operations are not affected. Names are shared with the Context: on one rank,
/// a host operation and a device operation of the same name cannot be pending at the same time.
/// Allreduces of the same type and options that are ready at the same time can be fused. While a
/// rank is in Context::join(), device operations of the other ranks fail with MismatchError.
///
/// The device runs the operations one after the other, in the same order on all ranks. An operation
/// on the device may have to wait for the streams of all ranks, and later operations then wait too.
/// A tensor must stay in place from submission until the operation has completed. In this time,
/// besides the operation, only work that was enqueued on `stream` before the submission may access
/// the tensor. If only one rank takes part, an operation only copies the input, if the output is
/// different memory, and scales.
///
/// All functions, except moving and destruction, may be called from several threads at the same
/// time. Shapes, numbers of rows and errors of arguments are those of Context. A call also throws
/// InvalidArgument if a tensor does not lie in the memory of the device. An allreduce or
/// reduce_scatter of int16 or uint16 throws InvalidArgument.
///
/// All pending and later operations fail with CommunicationError if an operation fails on a device
/// or if a rank is lost. They also fail with CommunicationError if the device takes longer than
/// HORO_TIMEOUT for an operation that it has begun. If only one rank takes part and its device
/// fails, they fail with DeviceError.
class DeviceOperations {
 public:
  /// Collective: all ranks of `context` (a Context or a ProcessSet) must make these calls in the
  /// same order and with equal options. `device` must outlive this object. It becomes the current
  /// device of the calling thread. Blocks.
  ///
  /// Throws InvalidArgument on this rank if one of its options is invalid. Throws MismatchError on
  /// every rank if options differ. Throws DeviceError on every rank, with the rank, if a rank
  /// cannot allocate the buffers.
  DeviceOperations(Context& context, device::Device& device,
                   const DeviceOperationsOptions& options = {});
  DeviceOperations(DeviceOperations&&) noexcept;
  DeviceOperations& operator=(DeviceOperations&&) noexcept;
  /// Waits until the device has completed the operations on which the ranks have agreed. All other
  /// operations of this rank end with ShutdownError. If the other ranks submit one of these other
  /// operations, the job ends with CommunicationError. The program must therefore call wait() or
  /// wait_on() on every handle before it destroys this object. Not collective.
  ~DeviceOperations();

  /// Functions without `_async` block until the device has completed the operation. Functions with
  /// `_async` wait neither for the device nor for other ranks.
  void allreduce(TensorView tensor, const DeviceAllreduceOptions& options);
  DeviceHandle allreduce_async(TensorView tensor, const DeviceAllreduceOptions& options);

  void broadcast(TensorView tensor, const DeviceBroadcastOptions& options);
  DeviceHandle broadcast_async(TensorView tensor, const DeviceBroadcastOptions& options);

  void allgather(const ConstTensorView& input, TensorView output,
                 const DeviceAllgatherOptions& options);
  DeviceHandle allgather_async(const ConstTensorView& input, TensorView output,
                               const DeviceAllgatherOptions& options);

  void reduce_scatter(const ConstTensorView& input, TensorView output,
                      const DeviceReduceScatterOptions& options);
  DeviceHandle reduce_scatter_async(const ConstTensorView& input, TensorView output,
                                    const DeviceReduceScatterOptions& options);

  /// Returns the number of rows received from each rank, by rank.
  std::vector<std::size_t> alltoall(const ConstTensorView& input, TensorView output,
                                    const DeviceAlltoallOptions& options);
  DeviceAlltoallHandle alltoall_async(const ConstTensorView& input, TensorView output,
                                      const DeviceAlltoallOptions& options);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace horo
