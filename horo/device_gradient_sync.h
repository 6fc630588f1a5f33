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

/// The location of a reduced gradient. The memory belongs to the program or to the
/// DeviceGradientSync.
struct ReducedGradient {
  const void* data;  ///< address in device memory, with the elements in the gradient's order
  DataType type;
  double scale;  ///< the factor by which the reader must multiply each value
};

/// Averages (or otherwise reduces) the same set of gradients every step, in place, in the memory of
/// the device that open_gpu() returns. Streams order the exchange and the other work of the device.
/// The host waits for the device only in wait() and to stay at most two steps ahead.
///
///   const auto gpu = open_gpu(ctx);
///   DeviceGradientSync sync(ctx, *gpu, gradients);    // NamedTensors in the GPU's memory
///   // in backward, when the kernels that compute gradient i are enqueued on `stream`:
///   sync.ready(i, stream);
///   // before the kernels of the optimizer are enqueued:
///   sync.wait_on(stream);
///
/// The gradients are packed into buckets as in GradientSync. Steps send no control messages. A
/// bucket is exchanged in parts of about DeviceGradientSyncOptions::chunk_bytes. Large gradients,
/// and gradients that are contiguous in memory on all ranks, can be reduced in place; see
/// DeviceGradientSyncOptions::in_place_bytes. One kernel packs the other gradients of a part into a
/// fused buffer, and one kernel unpacks them. These kernels also convert and scale. If only one
/// rank takes part, it exchanges nothing and launches no kernel.
///
/// ready() may be called from several threads at the same time. All other functions must be called
/// by one thread at a time, after the calls of ready() for the same step have returned. The memory
/// of the gradients must stay in place while the DeviceGradientSync exists. If the program
/// accumulates gradients over several passes, it must call ready() only in the last pass.
class DeviceGradientSync {
 public:
  /// Collective: every rank must register the same names, shapes, types and options, in the same
  /// order. The gradients must lie in the memory of `device`. `device` must outlive this object and
  /// all its DeviceStepGraphs. It becomes the current device of the calling thread. Blocks.
  ///
  /// With several ranks, allocates two buffers on the device. Each buffer has room for the packed
  /// gradients of any one bucket. With leave_as_reduced, allocates one buffer for the packed
  /// gradients of all buckets.
  ///
  /// These errors are thrown on every rank: MismatchError as by GradientSync, InvalidArgument if
  /// the arguments of a rank are invalid, and DeviceError if a rank cannot allocate the buffers.
  /// With several ranks, the texts of the latter two name this rank.
  DeviceGradientSync(Context& context, device::Device& device,
                     std::span<const NamedTensor> gradients,
                     const DeviceGradientSyncOptions& options = {});
  DeviceGradientSync(DeviceGradientSync&&) noexcept;
  DeviceGradientSync& operator=(DeviceGradientSync&&) noexcept;
  /// Waits until the device has completed the steps that wait_on() or wait() has ended, and
  /// abandons an incomplete step. Then frees the resources on the device. If DeviceStepGraphs of
  /// this object still exist, all of this happens when the last of them is destroyed.
  ~DeviceGradientSync();

  /// Declares that gradient `index` (its position in the registered list) is final when `stream`
  /// has completed the work that is enqueued on it now. `stream` is a cudaStream_t. With the host
  /// stand-in for a GPU, it is device::Stream::native(). Records an event; does not wait for the
  /// device. Throws InvalidArgument if the index is out of range, if the gradient was already
  /// marked in this step, or if the stream is in a capture that capture() did not begin.
  void ready(std::size_t index, void* stream);
  /// Ends a step: later work of `stream` starts after every gradient is reduced. After wait_on()
  /// has returned, gradients of the next step may be marked. Blocks until the exchange is enqueued.
  /// With several ranks, this is after the device has completed the exchange of the step before the
  /// previous one.
  ///
  /// If the exchange fails later, the later work of the stream reads undefined gradients. Before
  /// the host uses results of that work, it must wait for the work and then call check().
  ///
  /// Throws InvalidArgument, with the names, if gradients were not marked. Throws
  /// CommunicationError if a rank was lost, if a device failed or if HORO_TIMEOUT has passed. If
  /// only one rank takes part, throws DeviceError if its device failed. After a CommunicationError
  /// or a DeviceError, nothing is exchanged any more, and later calls that mark gradients, end
  /// steps or launch graphs throw the same error.
  void wait_on(void* stream);
  /// Ends a step and blocks until the device has completed it. Throws as wait_on() does.
  void wait();
  /// Throws the error of the exchange, as wait_on() does, if the exchange has already failed. Does
  /// not block. See wait_on() for when to call check().
  void check();

  /// Captures a whole step as a graph. `step` must enqueue its work on `stream`, or on streams that
  /// wait for events recorded on `stream` (Device::capture()). `step` must call ready() for every
  /// gradient and, at the end, wait_on(). The device runs nothing of the graph before
  /// DeviceStepGraph::launch(). All ranks must call capture() after the same step. Steps with and
  /// without a graph may follow each other in any order that is the same on all ranks.
  ///
  /// Run at least one step without a graph first. Otherwise capture() waits until the ranks have
  /// connected, and libraries may not have chosen their kernels yet.
  ///
  /// Rethrows exceptions of `step`. Throws InvalidArgument, with the names, if `step` leaves
  /// gradients unmarked. Also throws InvalidArgument if `step` does not call wait_on(), if
  /// gradients are already marked before, or if HORO_ALGORITHM is hierarchical and there are
  /// several nodes. Throws DeviceError if the work cannot be captured, for example because `step`
  /// waits for the device. After any of these errors, no capture is active and the object remains
  /// usable. Throws errors of the exchange as wait_on() does.
  [[nodiscard]] DeviceStepGraph capture(void* stream, const std::function<void()>& step);

  /// Returns the location of reduced gradient `index` at the end of a step. The location is the
  /// same in every step. Without leave_as_reduced, the location is the gradient's own memory, with
  /// scale 1. With leave_as_reduced, the location is the fused buffer if the gradient is packed,
  /// and the gradient's own memory if the gradient is reduced in place. The contents of a packed
  /// gradient's own memory are then undefined. If only one rank takes part, the location is always
  /// the gradient's own memory, with scale 1.
  ///
  /// The values are valid until a gradient of the same bucket is marked in the next step. Enqueue
  /// the work that reads the values before that call of ready(), on the stream of that call or on a
  /// stream whose work that stream waits for. Throws InvalidArgument if the index is out of range.
  ReducedGradient reduced(std::size_t index) const;

  std::size_t bucket_count() const;
  /// The indices of the gradients in bucket `bucket`, in the order of packing. The reference is
  /// valid while this object exists. Throws InvalidArgument if `bucket` is out of range.
  const std::vector<std::size_t>& bucket(std::size_t bucket) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace horo
