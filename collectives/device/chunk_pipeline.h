#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "collectives/device/device_collectives.h"
#include "collectives/device/fused_layout.h"

namespace horo::collectives {

/// Allreduces tensors of a device: in place those that the layout says so of, the others through
/// fused buffers. While chunk k travels, chunk k+1 is packed and chunk k-1 unpacked, on three
/// streams that events join; and the next call packs into another buffer while this one's last
/// chunks travel. Nothing here waits for the device or for peers. Used by one thread at a time.
///
/// Cost: each element is read and written twice beside what the collective takes, of which all but
/// the first pack and the last unpack of a call overlap with it. For k chunks, 2k kernels, k
/// collectives and 2k events. What is reduced in place travels first, while the rest is packed, for
/// one collective a chunk and no kernel. An average (or a scale) takes one kernel more, which reads
/// and writes each element once: after the collective and in its shadow, but for the last chunk, or
/// before it for float16, whose sum could be infinite. It is a kernel, not the collective (NCCL's
/// ncclAvg and PreMulSum), because those multiply each contribution: the values would be rounded
/// once for each rank, and differ from those that went through the buffer. Of what is left as it is
/// reduced (Treatment::leave_as_reduced) each element is read and written once, by pack, or not at
/// all, in place.
class ChunkPipeline {
 public:
  struct Options {
    /// 2 or 3; more overlap less than they take memory. 1 for what is left in it.
    int buffers = 2;
    unsigned blocks_per_launch = 0;  ///< 0: Device::full_grid()
  };
  /// What becomes of the values on their way.
  struct Treatment {
    ReduceOp op = ReduceOp::kAverage;
    double prescale = 1, postscale = 1;  ///< of floating point values
    /// End with what the collective leaves, for whoever reads it to do the rest (factor_left()):
    /// packed values stay in the buffer, for which layouts have places of their own
    /// (place_apart()), and no kernel follows. Of floating point values.
    bool leave_as_reduced = false;
  };

  /// Layouts of up to `buffer_bytes` can travel. `device` and `collectives` outlive this. Loads all
  /// kernels that allreduce() may need, so that none has to be while a collective runs. Throws
  /// DeviceError if the device has too little memory.
  ChunkPipeline(device::Device& device, DeviceCollectives& collectives, std::size_t buffer_bytes,
                const Options& options);
  /// The same, with `memory`, memory_bytes(buffer_bytes, options) of the device or more, for the
  /// buffers.
  ChunkPipeline(device::Device& device, DeviceCollectives& collectives, device::Memory memory,
                std::size_t buffer_bytes, const Options& options);
  /// Waits for the device to be done with the buffers; for what failed or was aborted, not long.
  ~ChunkPipeline();

  /// What the buffers take; 0 where nothing goes through them.
  static std::size_t memory_bytes(std::size_t buffer_bytes, const Options& options);
  /// Gives each layout a place of its own in one buffer, whose bytes are returned.
  static std::size_t place_apart(std::span<FusedLayout> layouts);
  /// What values that are left as they are reduced are still to be multiplied with; those of
  /// `ranks` ranks, of `type`, that travelled as `wire`.
  static double factor_left(const Treatment& treatment, DataType type, DataType wire, int ranks);
  /// The first buffer.
  const std::byte* buffer() const { return buffers_.front().data; }

  /// Begins when the events `ready` are done, with `begun` if there is one, and ends with `done`.
  /// Collective: same layouts and treatments in the same order on all ranks. The layout need not be
  /// kept, its tensors must be. Throws DeviceError if the device refuses work; then give everything
  /// up.
  void allreduce(const FusedLayout& layout, const Treatment& treatment,
                 std::span<const device::Event* const> ready, device::Event& done,
                 device::Event* begun = nullptr);

  /// The next allreduce() takes the first buffer, which it waits for. With registered buffers all
  /// ranks must use the same one: where what came before may differ between them, this makes it so.
  void begin_step() { calls_ = 0; }
  /// What allreduce() is given from now on begins after what `stream` has been given so far.
  void fork(device::Stream& stream);
  /// What `stream` is given from now on begins after what allreduce() has been given so far.
  void join(device::Stream& stream);
  /// In a capture that began with `stream`: from here to end_capture(), allreduce() gives its work
  /// to the graph, which join() ends. Between graphs and the work given otherwise fork() and
  /// join(), around each launch, keep the order.
  void begin_capture(device::Stream& stream);
  /// In any case, once the work is given.
  void end_capture() noexcept;

 private:
  struct Buffer {
    std::byte* data;
    std::unique_ptr<device::Event> is_free;
    std::unique_ptr<device::Event> is_free_in_other;  // of graphs, and in a capture the other way
  };
  struct Joints {
    std::unique_ptr<device::Event> packed, reduced;
  };
  struct Factors;
  Joints& joints(std::size_t chunk);
  void reduce_in_place(const FusedLayout& layout, const Factors& factors);
  void reduce_packed(const FusedLayout& layout, const Factors& factors);
  void exchange_events() noexcept;

  device::Device& device_;
  DeviceCollectives& collectives_;
  const unsigned blocks_;
  const std::size_t buffer_bytes_;
  device::Memory memory_;  // of the buffers; outlives the streams that use it
  std::vector<Buffer> buffers_;
  std::unique_ptr<device::Stream> pack_, travel_, unpack_;
  std::vector<Joints> joints_;
  std::unique_ptr<device::Event> forked_, joined_;
  std::size_t calls_ = 0;
};

}  // namespace horo::collectives
