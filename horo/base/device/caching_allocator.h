#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "horo/base/device/device.h"

namespace horo::device {

/// Memory of a device that is kept when it is freed, for the next request of about its size: a loop
/// that asks for the same sizes in every round makes the driver allocate in the first alone, and
/// never waits for it later. Thread-safe.
///
/// Reuse follows streams. Memory may be freed as soon as the work that uses it has been given to
/// its stream: the same stream can have it again at once, since what it does comes later, and
/// another one when an event, recorded at that moment, is done. So nobody waits.
///
/// What a stream asks for while it is captured (Device::capture()) is the graph's: the stream has
/// it again at once when it is freed in the capture, and nobody else before the graph is gone. That
/// memory goes back to the driver then. Memory of before that is freed in the capture is kept for
/// the graph likewise; what the graph uses and the program frees later must outlive the graph.
///
/// Blocks have few sizes (block_size()), are taken for requests of their own size alone, and
/// never split: small ones are cut from pieces of 2 MiB, each for one size. Cost: at most an eighth
/// of unused memory in large blocks, and of every small size a piece that may be half empty.
class CachingAllocator {
 public:
  struct Counters {
    std::uint64_t requests = 0;
    std::uint64_t driver_allocations = 0;
    std::size_t in_use_bytes = 0;  ///< in the blocks that have not been freed
    std::size_t peak_bytes = 0;    ///< the most of that so far
    std::size_t cached_bytes = 0;  ///< of the driver, in no use
    std::size_t graph_bytes = 0;   ///< of the driver, reserved for graphs; not among the others
  };

  /// `device` outlives this and its memory.
  explicit CachingAllocator(Device& device);
  /// Waits for what still uses memory that has been freed. Memory in use may be freed later.
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// Memory for work of `stream`, aligned to 256 bytes, of any content. The stream is still there
  /// when the memory is freed (if that is in a capture, when the graph goes), and idle when it
  /// goes. When the driver has no more, gives back what is cached, which waits for the device, and
  /// asks once more; then throws DeviceError with the figures.
  Memory allocate(std::size_t bytes, Stream& stream);
  /// Says that `stream` too has been given work that uses `memory`, of this allocator: once freed,
  /// it is nobody's before that is done. Throws InvalidArgument if the stream is being captured and
  /// the memory is not the graph's: how long the graph uses it, nobody knows.
  void note_use(const Memory& memory, Stream& stream);
  /// Gives what is cached back to the driver (a piece of which something is in use stays); returns
  /// how many bytes that were. Waits for what still uses them.
  std::size_t trim();
  Counters counters() const;

 private:
  class Pool;
  std::shared_ptr<Pool> pool_;
};

}  // namespace horo::device
