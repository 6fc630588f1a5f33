#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "collectives/device/device_collectives.h"
#include "collectives/device/fused_layout.h"

namespace horo::collectives {

/// Allreduces tensors in device memory, in chunks. The layout selects the tensors that are reduced
/// in place; the others are packed into fused buffers. While chunk k is reduced, chunk k+1 is
/// packed and chunk k-1 is unpacked, on three streams that are ordered by events. The next call
/// packs into another buffer while the last chunks of this call are reduced. Calls only enqueue
/// work and never wait for the device or for peers. Used by one thread at a time.
///
/// Cost: besides the collective, each packed element is read and written twice. All of this
/// overlaps with the collectives, except the first pack and the last unpack of a call. k chunks
/// take 2k kernels, k collectives and 2k events. Tensors in place are reduced first, while the
/// others are packed. They take one collective per chunk and no kernel.
///
/// An average or a scale takes one more kernel for each chunk that is reduced in place. The kernel
/// reads and writes each element once. It runs after the collective and overlaps with the next
/// collective. For a prescale, and for an average of float16, whose sum could overflow, the kernel
/// runs before the collective. The collective itself does not scale: ncclAvg and PreMulSum multiply
/// each contribution, which rounds once per rank and gives other bits than the fused buffers.
///
/// With ReduceSpec::leave_as_reduced, each packed element is read and written once, and elements in
/// place are not touched.
class ChunkPipeline {
 public:
  struct Options {
    /// Number of fused buffers, 2 or 3. More buffers cost memory without more overlap. 1 if results
    /// stay in the buffer (ReduceSpec::leave_as_reduced).
    int buffers = 2;
    unsigned blocks_per_launch = 0;  ///< 0: Device::full_grid()
  };
  /// How values are reduced and scaled.
  struct ReduceSpec {
    ReduceOp op = ReduceOp::kAverage;
    double prescale = 1, postscale = 1;  ///< factors of floating point values
    /// Skip the final scaling and unpacking; the reader of the values applies factor_left(). Packed
    /// values stay in the buffer, where each layout needs a part of its own (place_apart()). Only
    /// for floating point types.
    bool leave_as_reduced = false;
  };

  /// Accepts layouts of up to `buffer_bytes`. `device` and `collectives` outlive this object. Loads
  /// all kernels that allreduce() may launch, because loading a kernel during a collective can
  /// deadlock or stall. Throws DeviceError if the device has too little memory.
  ChunkPipeline(device::Device& device, DeviceCollectives& collectives, std::size_t buffer_bytes,
                const Options& options);
  /// The same with given `memory` for the buffers: memory_bytes(buffer_bytes, options) or more, on
  /// the same device.
  ChunkPipeline(device::Device& device, DeviceCollectives& collectives, device::Memory memory,
                std::size_t buffer_bytes, const Options& options);
  /// Waits until the device no longer uses the buffers. After a failure or an abort, the wait is
  /// short.
  ~ChunkPipeline();

  /// The size of all buffers together; 0 if no tensor is packed.
  static std::size_t memory_bytes(std::size_t buffer_bytes, const Options& options);
  /// Assigns each layout a separate part of one buffer. Returns the size of that buffer in bytes.
  static std::size_t place_apart(std::span<FusedLayout> layouts);
  /// The factor that remains to be applied to values left as reduced. `ranks` is the number of
  /// ranks, `type` the type of the tensors and `wire` the type in which they are sent.
  static double factor_left(const ReduceSpec& spec, DataType type, DataType wire, int ranks);
  /// The address of the first buffer.
  const std::byte* buffer() const { return buffers_.front().data; }

  /// Enqueues an allreduce that starts when all events `ready` have completed. Records `begun`, if
  /// given, at the start, and `done` at the end. Collective: all ranks pass the same layouts and
  /// specs in the same order. `layout` may be destroyed after the call; its tensors must stay valid
  /// until `done`. Throws DeviceError if the device rejects work; the pipeline is then unusable.
  void allreduce(const FusedLayout& layout, const ReduceSpec& spec,
                 std::span<const device::Event* const> ready, device::Event& done,
                 device::Event* begun = nullptr);

  /// Makes the next allreduce() use the first buffer. Registered buffers require that all ranks use
  /// the same one; call this where the number of preceding calls may differ between ranks.
  void begin_step() { calls_ = 0; }
  /// Orders later allreduce() calls after the work enqueued on `stream` so far.
  void fork(device::Stream& stream);
  /// Orders later work on `stream` after all allreduce() calls so far.
  void join(device::Stream& stream);
  /// Starts to add the work of allreduce() to the graph that `stream` is capturing, until
  /// end_capture(). Call join() before the capture of `stream` ends. To order graph launches and
  /// other work, call fork() and join() around each launch.
  void begin_capture(device::Stream& stream);
  /// Ends the part that began with begin_capture(). Required on every path, also after an error.
  void end_capture() noexcept;

 private:
  struct Buffer {
    std::byte* data;
    std::unique_ptr<device::Event> is_free;
    std::unique_ptr<device::Event>
        is_free_in_other;  // for graphs; swapped with is_free during a capture
  };
  struct EventSet {
    std::unique_ptr<device::Event> packed, reduced;
  };
  struct Factors;
  EventSet& event_set(std::size_t chunk);
  void reduce_in_place(const FusedLayout& layout, const Factors& factors);
  void reduce_packed(const FusedLayout& layout, const Factors& factors);
  void exchange_events() noexcept;

  device::Device& device_;
  DeviceCollectives& collectives_;
  const unsigned blocks_;
  const std::size_t buffer_bytes_;
  device::Memory memory_;  // holds the buffers; outlives the streams that use it
  std::vector<Buffer> buffers_;
  std::unique_ptr<device::Stream> pack_, travel_, unpack_;
  std::vector<EventSet> event_sets_;
  std::unique_ptr<device::Event> forked_, joined_;
  std::size_t calls_ = 0;
};

}  // namespace horo::collectives
