#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "horo/base/data_type.h"
#include "horo/base/gradient_sync_options.h"
#include "horo/context.h"
#include "horo/device/device.h"
#include "horo/device_step_graph.h"

namespace horo {

/// The location of a reduced gradient.
struct ReducedGradient {
  const void* data;  ///< the address in device memory; the elements have the order of the gradient
  DataType type;
  double scale;  ///< the factor by which the reader must multiply each value
};

/// Averages (or otherwise reduces) the same set of gradients every step, in place, in the memory of
/// a GPU: a GradientSync for the device from open_gpu(). Operations are ordered by streams; the
/// host waits for the device only in wait().
///
///   const auto gpu = open_gpu(ctx);
///   DeviceGradientSync sync(ctx, *gpu, gradients);    // NamedTensors in the GPU's memory
///   // in backward, when the kernels that compute gradient i are enqueued on `stream`:
///   sync.ready(i, stream);
///   // before the kernels of the optimizer are enqueued:
///   sync.wait_on(stream);
///
/// Buckets are those of GradientSync, and ranks send no control messages after registration. A
/// bucket is exchanged in chunks. Large gradients, and gradients that are contiguous in memory, are
/// reduced in place. Others are packed into a fused buffer and unpacked, by one kernel each, which
/// also converts and scales. A job of one rank enqueues nothing on the device.
///
/// ready() may be called from several threads at the same time. One thread calls all other
/// functions, after the calls of ready() that they cover. The memory of the gradients stays in
/// place while the DeviceGradientSync lives. In a step of several passes, call ready() in the last
/// pass.
class DeviceGradientSync {
 public:
  /// Collective: every rank registers the same names, shapes, types and options, in the same order.
  /// The gradients lie in the memory of `device`, which outlives this object and becomes the
  /// current device of the calling thread. Allocates two buffers on the device, as large as the
  /// largest packed part of a bucket; with leave_as_reduced, one buffer for all buckets.
  ///
  /// Throws on every rank: MismatchError as GradientSync does, InvalidArgument if the arguments of
  /// a rank are invalid, and DeviceError, with the rank, if a rank cannot allocate the buffers.
  DeviceGradientSync(Context& context, device::Device& device,
                     std::span<const NamedTensor> gradients,
                     const DeviceGradientSyncOptions& options = {});
  DeviceGradientSync(DeviceGradientSync&&) noexcept;
  DeviceGradientSync& operator=(DeviceGradientSync&&) noexcept;
  /// Waits until the device has completed the steps that wait_on() has ended. Abandons an
  /// incomplete step. Resources stay until all DeviceStepGraphs of this object are destroyed.
  ~DeviceGradientSync();

  /// Declares that gradient `index` (its position in the registered list) is final once `stream`
  /// has completed the work enqueued so far. `stream` is a cudaStream_t; with the stand-in for a
  /// GPU, it is device::Stream::native(). Records an event; does not wait. Throws InvalidArgument
  /// if the index is out of range, if the gradient was already marked in this step, or if the
  /// stream is in a capture that capture() did not begin.
  void ready(std::size_t index, void* stream);
  /// Ends a step: later work of `stream` starts after every gradient is reduced, and the next step
  /// may be marked. Blocks until the exchange is enqueued; the host is at most two steps ahead of
  /// the device. If the exchange fails after that, the stream works with undefined gradients. Do
  /// not use its results before a later wait_on(), wait() or check() has returned.
  ///
  /// Throws InvalidArgument, with their names, if gradients were not marked. Throws
  /// CommunicationError, the same on all ranks, if a rank was lost, a device failed or HORO_TIMEOUT
  /// passed. A job of one rank throws DeviceError if its device failed. After either of these,
  /// nothing is exchanged, and every call throws the same error.
  void wait_on(void* stream);
  /// Ends a step and blocks until the device has completed it. Throws as wait_on() does.
  void wait();
  /// Throws the error of the exchange, as wait_on() does, if it has failed so far. Does not block.
  /// Call it before the host uses results that a stream computed after wait_on().
  void check();

  /// Captures a whole step as a graph. `step` enqueues its work on `stream`, and on streams that
  /// wait for events recorded there (Device::capture()). It calls ready() for every gradient and,
  /// at the end, wait_on(). Nothing runs before DeviceStepGraph::launch(). All ranks capture at the
  /// same step. Launches and steps without a graph may follow each other. Run a step without a
  /// graph first: otherwise the host waits for the other ranks here, and libraries have not chosen
  /// their kernels.
  ///
  /// Throws the exceptions of `step`. Throws InvalidArgument if `step` leaves gradients unmarked,
  /// with their names, or does not call wait_on(). Also throws it if gradients are already marked,
  /// or if the plan uses the hierarchical exchange (HORO_ALGORITHM=hierarchical). Throws
  /// DeviceError if the work cannot be captured, for example because it waits for the device. After
  /// all of these, no capture is active and the object remains usable. Throws errors of the
  /// exchange as wait_on() does.
  [[nodiscard]] DeviceStepGraph capture(void* stream, const std::function<void()>& step);

  /// The location of gradient `index` at the end of a step, the same in every step. Without
  /// leave_as_reduced it is the gradient's own memory with scale 1. With leave_as_reduced the
  /// gradient's own memory is undefined after the exchange. The values are valid until a gradient
  /// of the same bucket is ready in the next step. Enqueue the work that reads them before that
  /// call of ready(), on the same stream or on one that it waits for. Throws InvalidArgument if the
  /// index is out of range.
  ReducedGradient reduced(std::size_t index) const;

  std::size_t bucket_count() const;
  /// Indices of the gradients in bucket `bucket`, in the order in which they lie in it.
  const std::vector<std::size_t>& bucket(std::size_t bucket) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace horo
