#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "horo/base/device/device.h"
#include "horo/base/reduce_op.h"
#include "horo/base/tensor_view.h"
#include "horo/context.h"
#include "horo/device_handle.h"

namespace horo {

/// The same on all ranks.
struct DeviceOperationsOptions {
  /// Of each of two buffers in the device's memory, through which allreduces travel, those that are
  /// ready together as one; larger tensors in parts. At least 4096; unset: HORO_BUCKET_BYTES.
  std::optional<std::size_t> buffer_bytes;
  /// As DeviceGradientSyncOptions::chunk_bytes.
  std::size_t chunk_bytes = std::size_t{8} << 20;
};

/// Names, scale factors, roots and splits are those of Context's options. `stream`: what it has
/// been given so far makes the inputs (and lets go of the outputs); a cudaStream_t, of the stand-in
/// device::Stream::native(). Null is a GPU's default stream.
struct DeviceAllreduceOptions {
  std::string name;
  ReduceOp op = ReduceOp::kAverage;  ///< any but kAdasum
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
  ReduceOp op = ReduceOp::kAverage;  ///< any but kAdasum
  void* stream = nullptr;
};
struct DeviceAlltoallOptions {
  std::string name;
  std::vector<std::size_t> splits;
  void* stream = nullptr;
};

/// Context's operations by name on tensors in the memory of a device, in the order of streams: the
/// host need not wait for the device.
///
///   const auto gpu = open_gpu(ctx);
///   DeviceOperations ops(ctx, *gpu);
///   DeviceHandle h = ops.allreduce_async(w, {.name = "w.grad", .stream = stream});
///   // ... other work of the host, and of the stream
///   h.wait_on(stream);   // what the stream is given from now on comes after it
///
/// As on a Context, ranks may submit in different orders, every rank must submit each operation,
/// and shapes, types, operations and roots that differ are a MismatchError on every rank, after
/// which the next operation works; so is a name that one rank uses for host memory. Names are those
/// of the Context: host and device operations of one name are not pending together. Small
/// allreduces that are ready together travel together. join() does not help here.
///
/// On the device operations are done one after the other, in the order in which the ranks have come
/// to agree on them, each when the streams of all ranks have come to it. A tensor stays where it is
/// and untouched from its submission until the operation is done. A job of one rank starts nothing
/// on the device but copies where input and output differ, and scaling.
///
/// All members may be called from several threads at once. Shapes, rows and errors of arguments
/// are those of the functions of the same name of Context; a tensor that does not lie in the memory
/// of the device is an InvalidArgument too. An operation that fails on a rank's device, loses a
/// rank, or does not end in HORO_TIMEOUT once the device has begun it, ends all that are pending,
/// and every later one, with CommunicationError, the same on all ranks; that fails on the device of
/// a rank alone, with DeviceError.
class DeviceOperations {
 public:
  /// Collective: all ranks of `context` (a Context or a ProcessSet) call it in the same order, with
  /// equal options. `device` outlives this; it becomes the calling thread's current device. Throws
  /// MismatchError, on every rank, if options differ; DeviceError on every rank, with the rank,
  /// where one of them cannot have the memory for the buffers.
  DeviceOperations(Context& context, device::Device& device,
                   const DeviceOperationsOptions& options = {});
  DeviceOperations(DeviceOperations&&) noexcept;
  DeviceOperations& operator=(DeviceOperations&&) noexcept;
  /// Waits until the device has done what it was given. Not collective, but wait for every handle,
  /// or have wait_on() return, before: operations that the ranks have not agreed on yet end with
  /// ShutdownError here, and if the other ranks still submit them, the job with CommunicationError.
  ~DeviceOperations();

  /// The forms without _async wait for the device.
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

  /// Returns how many rows came from each rank.
  std::vector<std::size_t> alltoall(const ConstTensorView& input, TensorView output,
                                    const DeviceAlltoallOptions& options);
  DeviceAlltoallHandle alltoall_async(const ConstTensorView& input, TensorView output,
                                      const DeviceAlltoallOptions& options);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace horo
