#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "horo/base/data_type.h"
#include "horo/base/device/device.h"
#include "horo/base/reduce_op.h"
#include "horo/context.h"
#include "horo/device_step_graph.h"

namespace horo {

/// How a DeviceGradientSync exchanges; the same on all ranks.
struct DeviceGradientSyncOptions {
  /// What the ranks match the plan by, and errors and records call it; empty: "gradients.<k>", as
  /// GradientSyncOptions::name. Plans that live at the same time have names of their own.
  std::string name;
  /// Any but kAdasum.
  ReduceOp op = ReduceOp::kAverage;
  /// Gradients are exchanged together up to this many bytes; unset: HORO_BUCKET_BYTES.
  std::optional<std::size_t> bucket_bytes;
  /// See GradientSyncOptions::first_bucket_bytes.
  std::optional<std::size_t> first_bucket_bytes;
  /// What float32 gradients travel as, kFloat16 or kBFloat16, for half the bytes: they are rounded
  /// at each hop. Unset: as they are.
  std::optional<DataType> wire;
  /// Names of registered tensors that are reduced along but are no gradients, such as the loss:
  /// they travel as they are whatever `wire` says, with it in buckets of their own.
  std::vector<std::string> metrics{};
  /// A bucket travels in parts of about this many bytes: while one is on its way, the next one is
  /// packed and the one before unpacked. At least 1.
  std::size_t chunk_bytes = std::size_t{8} << 20;
  /// Gradients that travel as they are and lie one after the other without a gap, on all ranks, or
  /// one alone, are reduced where they lie if they have this many bytes or are the whole bucket;
  /// the rest of a bucket goes through a buffer, for one exchange in the place of many small ones.
  /// A sum in place starts no kernel, an average one. Unset: all goes through buffers.
  std::optional<std::size_t> in_place_bytes = std::size_t{1} << 20;
  /// Leave gradients as the exchange leaves them, for an optimizer that reads them there
  /// (DeviceGradientSync::reduced()): in the buffer in the type that they travelled as, or in
  /// place; and averages undivided. That saves a pass over all of them, and rounds no more than
  /// once. Takes memory: a buffer for all that is packed, in the place of two for the bucket that
  /// needs most. Of floating point gradients.
  bool leave_as_reduced = false;
  /// What else has to be the same on all ranks, such as "clip_norm = 1" of an optimizer: compared
  /// with the other options, so that a difference is a MismatchError that has both texts.
  std::vector<std::string> also_agreed{};
};

/// Where a gradient is to be found once it is reduced.
struct ReducedGradient {
  const void* data;  ///< in the device's memory; as many elements as the gradient, in its order
  DataType type;
  double scale;  ///< what each value is still to be multiplied with
};

/// Averages (or otherwise reduces) the same set of gradients every step, in place, in the memory of
/// a GPU: GradientSync for what open_gpu() returns. Everything is in the order of streams; the host
/// waits for the device only in wait().
///
///   const auto gpu = open_gpu(ctx);
///   DeviceGradientSync sync(ctx, *gpu, gradients);    // NamedTensors of the GPU's memory
///   // in backward, once the kernels that make gradient i are given to `stream`:
///   sync.ready(i, stream);
///   // before the optimizer's kernels are given to it:
///   sync.wait_on(stream);
///
/// Buckets are those of GradientSync, and no control messages are sent after registration either. A
/// bucket travels in chunks: in place where its gradients are large or follow each other in memory,
/// as those of an arena do, otherwise through a fused buffer of the device, packed and unpacked by
/// one kernel each, which convert and scale on the way. A job of one rank starts nothing on the
/// device.
///
/// ready() may be called from several threads at once, the others from one, after the calls of
/// ready() they are to cover. The gradients' memory must stay where it is while this lives. A step
/// of several passes: call ready() in the last one.
class DeviceGradientSync {
 public:
  /// Collective: every rank registers the same names, shapes, types and options, in the same order.
  /// `device` outlives this; the gradients lie in its memory. It becomes the calling thread's
  /// current device. Takes two buffers in the device's memory, of the size of what the bucket that
  /// needs most has to pack, or, with leave_as_reduced, one for all.
  /// Throws MismatchError on every rank, as GradientSync does; DeviceError on every rank, with the
  /// rank, where one of them cannot have the memory; InvalidArgument, on every rank as well, for
  /// arguments that are wrong on one.
  DeviceGradientSync(Context& context, device::Device& device,
                     std::span<const NamedTensor> gradients,
                     const DeviceGradientSyncOptions& options = {});
  DeviceGradientSync(DeviceGradientSync&&) noexcept;
  DeviceGradientSync& operator=(DeviceGradientSync&&) noexcept;
  /// Lets the device end the steps that wait_on() has ended. A step in the middle is given up. If
  /// graphs of steps live, when they are gone.
  ~DeviceGradientSync();

  /// Gradient `index` (its place in the registered list) is final once the device has done what
  /// `stream` (a cudaStream_t; of the stand-in, device::Stream::native()) has been given so far.
  /// Records an event; does not wait. Throws InvalidArgument if the index is out of range, the
  /// gradient was already marked in this step, or the stream is in a capture that is not
  /// capture()'s.
  void ready(std::size_t index, void* stream);
  /// Ends a step: what `stream` is given from now on begins when every gradient is reduced, and the
  /// next step may be marked. Waits until the exchange has been given to the device, which is at
  /// most two steps behind. If the exchange fails later, the stream goes on with gradients of any
  /// values: what it has made of them counts once a later wait_on(), wait() or check() has
  /// returned. Throws InvalidArgument, naming them, if gradients were not marked;
  /// CommunicationError, the same on all ranks, if a rank was lost, its device failed or
  /// HORO_TIMEOUT passed; DeviceError if the device of a rank alone failed. After either nothing
  /// more is exchanged, and every call throws it again.
  void wait_on(void* stream);
  /// The same, and waits until the device is through, not with a stream.
  void wait();
  /// Throws the error of the exchange, if it has failed so far, as wait_on() would. Does not wait:
  /// for what a stream has done after wait_on(), once the host has seen it done.
  void check();

  /// Makes a graph of a whole step: of what `step` gives to `stream`, and to streams that wait for
  /// events recorded there meanwhile (Device::capture()), with its calls of ready() and, as the
  /// last, wait_on(). Nothing of it is done before DeviceStepGraph::launch(). Every rank captures,
  /// at the same step; launches and steps without a graph may follow each other. The host waits for
  /// the other ranks if this is their first exchange: give a step without a graph before, which
  /// also lets libraries choose their kernels. Throws what `step` throws; InvalidArgument if it
  /// leaves gradients unmarked, naming them, or does not call wait_on(), if gradients are marked
  /// already, and where HORO_ALGORITHM=hierarchical exchanges by nodes; DeviceError if it does what
  /// a graph cannot, such as to wait for the device. The plan goes on after those, and nothing is
  /// captured any more. Throws errors of the exchange as wait_on() does.
  [[nodiscard]] DeviceStepGraph capture(void* stream, const std::function<void()>& step);

  /// Where gradient `index` is once a step has ended, in every step the same place: in its own
  /// memory as it is, unless they are left as they are reduced. Its values are those of the step
  /// until gradients of its bucket are ready in the next one: what reads them is given to a stream
  /// before, and ready() to the same stream or one that waits for it. With leave_as_reduced the
  /// gradient's own memory then has whatever values. Throws InvalidArgument if the index is out of
  /// range.
  ReducedGradient reduced(std::size_t index) const;

  std::size_t bucket_count() const;
  /// Indices of the gradients in bucket `bucket`, in the order in which they lie in it.
  const std::vector<std::size_t>& bucket(std::size_t bucket) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace horo
