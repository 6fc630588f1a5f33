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

/// The options of DeviceOperations; the same on all ranks.
struct DeviceOperationsOptions {
  /// The size in bytes of each of two buffers on the device, at least 4096. Allreduces that are
  /// ready at the same time are fused in a buffer; larger tensors are reduced in parts. Unset:
  /// HORO_BUCKET_BYTES.
  std::optional<std::size_t> buffer_bytes;
  /// See DeviceGradientSyncOptions::chunk_bytes.
  std::size_t chunk_bytes = std::size_t{8} << 20;
};

/// Names, scale factors, roots and splits are those of Context's options. `stream`: the operation
/// starts after the work that this stream has at submission, which computes the inputs. It is a
/// cudaStream_t; with the stand-in for a GPU, it is device::Stream::native(). Null: the default
/// stream of the GPU.
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

/// The named operations of Context, on tensors in device memory. They are ordered by streams, so
/// the host need not wait for the device.
///
///   const auto gpu = open_gpu(ctx);
///   DeviceOperations ops(ctx, *gpu);
///   DeviceHandle h = ops.allreduce_async(w, {.name = "w.grad", .stream = stream});
///   // ... other work of the host, and of the stream
///   h.wait_on(stream);   // later work of the stream starts after the operation
///
/// As in Context, ranks may submit in different orders, and every rank must submit each operation.
/// If shapes, types, operations or roots differ, or if a rank uses the name for host memory, every
/// rank gets MismatchError, and later operations work. Names are shared with the Context: a host
/// and a device operation of the same name cannot be pending together. Small allreduces that are
/// ready at the same time are fused. A rank in Context::join() does not take part.
///
/// The device runs the operations one after the other, in the order in which the ranks agreed on
/// them. Each one starts when the streams of all ranks have reached it. A tensor must stay in place
/// and untouched from submission until the operation is done. A job of one rank only copies, if
/// input and output differ, and scales.
///
/// All functions may be called from several threads at the same time. Shapes, rows and errors of
/// arguments are those of Context. A tensor outside the memory of the device is an InvalidArgument
/// too. All pending and later operations fail with CommunicationError, the same on all ranks, if an
/// operation fails on a device, if a rank is lost, or if the device takes longer than HORO_TIMEOUT
/// for an operation that it has begun. In a job of one rank, they fail with DeviceError.
class DeviceOperations {
 public:
  /// Collective: all ranks of `context` (a Context or a ProcessSet) call it in the same order, with
  /// equal options. `device` outlives this object and becomes the current device of the calling
  /// thread. Throws MismatchError on every rank if options differ. Throws DeviceError on every
  /// rank, with the rank, if a rank cannot allocate the buffers.
  DeviceOperations(Context& context, device::Device& device,
                   const DeviceOperationsOptions& options = {});
  DeviceOperations(DeviceOperations&&) noexcept;
  DeviceOperations& operator=(DeviceOperations&&) noexcept;
  /// Waits for the operations on which the ranks have agreed. Not collective. Before it, call
  /// wait() or wait_on() on every handle: operations without agreement end here with ShutdownError.
  /// If the other ranks still submit them, the job ends with CommunicationError.
  ~DeviceOperations();

  /// Functions without `_async` block until the device has completed the operation.
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

  /// Returns the number of rows received from each rank.
  std::vector<std::size_t> alltoall(const ConstTensorView& input, TensorView output,
                                    const DeviceAlltoallOptions& options);
  DeviceAlltoallHandle alltoall_async(const ConstTensorView& input, TensorView output,
                                      const DeviceAlltoallOptions& options);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace horo
