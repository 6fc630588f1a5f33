#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "collectives/device/device_collectives.h"
#include "collectives/device/fused_layout.h"

namespace horo::collectives {

/// Allreduces tensors in device memory, in chunks. The layout determines which tensors are reduced
/// in place. The other tensors are packed into fused buffers. While chunk k is reduced, chunk k+1
/// is packed and chunk k-1 is unpacked. These stages run on three streams, and events order them.
/// With two or more buffers, the next allreduce() can be packed into another buffer while the last
/// chunks of this one are reduced. allreduce() only enqueues work and does not wait, except where a
/// collective waits for peers at its first use (see DeviceCollectives). Only one thread at a time
/// may use the object.
///
/// Cost: besides the collective, each packed element is read and written twice. Packing and
/// unpacking overlap with the collectives, except the first pack and the last unpack of a call. For
/// packed tensors, k chunks take 2k kernels, k collectives and about 2k events. Tensors in place
/// are reduced first, while the others are packed. Without scaling, each memory span in place takes
/// one collective and no kernel, and all spans of a call are given to NCCL as one group: nothing
/// overlaps with the exchange of a span, so cutting the span would only add latency.
///
/// With scaling, spans are cut into chunks, and a chunk takes one collective and one or two
/// kernels, each of which reads and writes each element once. The kernel of a postscale or an
/// average runs after the collective and overlaps with the next collective. The kernel of a
/// prescale runs before the collective. For an average of float16, whose sum could overflow, this
/// kernel also divides. The collective itself does not scale. For floating-point types, the scaling
/// operations of NCCL (ncclAvg and PreMulSum) multiply each contribution. Each product is rounded,
/// so the bits would differ from those of packed tensors.
///
/// With ReduceSpec::leave_as_reduced, each packed element is read and written once besides the
/// collective, and no kernel scales elements in place after the collective.
class ChunkPipeline {
 public:
  struct Options {
    /// The number of fused buffers: 1 with ReduceSpec::leave_as_reduced, and 2 or 3 otherwise. More
    /// than 3 buffers cost memory without more overlap.
    int buffers = 2;
    unsigned blocks_per_launch = 0;  ///< 0 for Device::full_grid()
  };
  /// How values are reduced and scaled.
  struct ReduceSpec {
    ReduceOp op = ReduceOp::kAverage;
    double prescale = 1, postscale = 1;  ///< factors; for floating-point types only
    /// If true, values are neither unpacked nor scaled after the collective. The reader of the
    /// values must multiply them by factor_left(). Packed values stay in the buffer, so each layout
    /// needs a separate part of the buffer (place_apart()). Only for floating-point types.
    bool leave_as_reduced = false;
  };

  /// Makes buffers for layouts of at most `buffer_bytes` (FusedLayout::buffer_bytes()). `device`
  /// and `collectives` must outlive this object. Loads all kernels that allreduce() may launch,
  /// because loading a kernel during a collective can stall or deadlock. Throws DeviceError if the
  /// device has too little memory.
  ChunkPipeline(device::Device& device, DeviceCollectives& collectives, std::size_t buffer_bytes,
                const Options& options);
  /// The same, but uses `memory` for the buffers. `memory` must be on `device` and have at least
  /// memory_bytes(buffer_bytes, options).
  ChunkPipeline(device::Device& device, DeviceCollectives& collectives, device::Memory memory,
                std::size_t buffer_bytes, const Options& options);
  /// The same, with buffers from collectives.allocate_buffer(). Collective over `control`, which
  /// connects the same ranks. Throws DeviceError if this rank has too little memory. The other
  /// ranks do not throw.
  static std::unique_ptr<ChunkPipeline> make(device::Device& device, DeviceCollectives& collectives,
                                             std::size_t buffer_bytes, const Options& options,
                                             Collectives& control);
  /// Waits until the device no longer uses the buffers. If a collective in flight cannot complete,
  /// the caller must call DeviceCollectives::abort() first.
  ~ChunkPipeline();

  /// The size of all buffers together, in bytes. 0 if buffer_bytes is 0.
  static std::size_t memory_bytes(std::size_t buffer_bytes, const Options& options);
  /// Assigns each layout a separate part of one buffer (FusedLayout::set_place()). Returns the size
  /// of that buffer in bytes.
  static std::size_t place_apart(std::span<FusedLayout> layouts);
  /// The factor by which the reader must multiply values that ReduceSpec::leave_as_reduced left in
  /// the buffer. `ranks` is the number of ranks, `type` the type of the tensors and `wire` the type
  /// in which they are sent.
  static double factor_left(const ReduceSpec& spec, DataType type, DataType wire, int ranks);
  /// The address of the first buffer.
  const std::byte* buffer() const { return buffers_.front().data; }

  /// Enqueues an allreduce that starts when all events `ready` are complete. Records `begun`, if
  /// given, at the start, and `done` at the end. Collective: all ranks must make the same calls in
  /// the same order, with equal chunks and specs. The caller may destroy `layout` after the call,
  /// but the tensors must stay valid until `done` is complete. Throws InvalidArgument if the layout
  /// does not fit into a buffer or does not match `spec`. Throws DeviceError if the device rejects
  /// work, and the errors of the collectives; the pipeline is then unusable.
  void allreduce(const FusedLayout& layout, const ReduceSpec& spec,
                 std::span<const device::Event* const> ready, device::Event& done,
                 device::Event* begun = nullptr);

  /// Makes the next allreduce() use the first buffer. If the buffers are registered with NCCL, all
  /// ranks must use the same buffer in a call. The caller therefore calls begin_step() at the start
  /// of each step, because the numbers of earlier calls may differ between ranks.
  void begin_step() { calls_ = 0; }
  /// Orders the work of later allreduce() calls after the work enqueued on `stream` so far.
  void fork(device::Stream& stream);
  /// Orders later work on `stream` after the work of all allreduce() calls so far.
  void join(device::Stream& stream);
  /// From this call until end_capture(), the work of allreduce() becomes part of the graph that
  /// `stream` is capturing. The caller must call join() before the capture of `stream` ends. To
  /// order each launch of the graph with allreduce() calls outside of graphs, the caller must call
  /// join() before the launch and fork() after it.
  void begin_capture(device::Stream& stream);
  /// Ends the period that began with begin_capture(). The caller must call it even after an error.
  void end_capture() noexcept;

 private:
  struct Buffer {
    std::byte* data;
    std::unique_ptr<device::Event> is_free;
    std::unique_ptr<device::Event> is_free_in_other;  // swapped with is_free during a capture
  };
  struct EventSet {
    std::unique_ptr<device::Event> packed, reduced;
  };
  struct Factors;
  EventSet& event_set(std::size_t chunk);
  void reduce_spans(const FusedLayout& layout, ReduceOp op);
  void reduce_in_place(const FusedLayout& layout, const Factors& factors);
  void reduce_packed(const FusedLayout& layout, const Factors& factors);
  void exchange_events() noexcept;

  device::Device& device_;
  DeviceCollectives& collectives_;
  const unsigned blocks_;
  const std::size_t buffer_bytes_;
  device::Memory memory_;  // holds the buffers; must outlive the streams that use it
  std::vector<Buffer> buffers_;
  std::unique_ptr<device::Stream> pack_, travel_, unpack_;
  std::vector<EventSet> event_sets_;
  std::unique_ptr<device::Event> forked_, joined_;
  std::vector<DeviceCollectives::Part> parts_;  // used only inside reduce_spans()
  std::size_t calls_ = 0;
};

}  // namespace horo::collectives
