#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "horo/base/text/quantity.h"
#include "horo/device/device.h"

namespace horo::device {

/// The size of the block for a request of `bytes` bytes: the next of 8 sizes per power of two, and
/// a multiple of 512. At most 511 bytes are unused up to 4 KiB, and at most an eighth above.
constexpr std::size_t block_size(std::size_t bytes) {
  if (bytes <= 512) return 512;
  const std::size_t step = std::max<std::size_t>(std::bit_floor(bytes - 1) / 8, 512);
  return round_up(bytes, step);
}

/// The number of blocks of this size that one allocation of the driver provides: as many as fit
/// into 2 MiB, at least one.
constexpr std::size_t blocks_at_once(std::size_t block_bytes) {
  return std::max<std::size_t>((std::size_t{2} << 20) / block_bytes, 1);
}

/// Caches freed device memory for later requests of about the same size. A loop that requests the
/// same sizes in every iteration calls the driver only in the first iteration, and never waits for
/// the driver later. Thread-safe.
///
/// Memory may be freed as soon as the work that uses it has been submitted to its stream. The same
/// stream can reuse the memory at once, because later work runs after that work. Freeing records no
/// event on this stream and does not block. When another stream finds no memory of its own, or when
/// the memory is given back to the driver, the allocator queries the first stream. If it is busy,
/// the allocator records an event there, and the memory is reusable when the event has completed.
/// The owner of a stream therefore calls forget() before it destroys the stream.
///
/// Memory that a stream requests during a capture (Device::capture()) belongs to the graph. If such
/// memory is freed in the capture, the same stream can reuse it at once; other streams cannot. The
/// driver receives the memory when the graph is destroyed. Memory that was allocated earlier and is
/// freed in the capture is kept for the lifetime of the graph too. If the program frees other
/// memory that the graph uses, it must destroy the graph first. Memory that a stream has freed
/// before it is being captured is neither reused by other streams nor given back until the capture
/// ends. A capture must not begin while another thread calls the allocator or frees its memory.
///
/// Blocks have few sizes (block_size()), serve only requests of their own size, and are never
/// split. Small blocks are cut from pieces of 2 MiB with one size each. Cost: at most an eighth of
/// each large block is unused, and each small size may have a half-empty piece.
class CachingAllocator {
 public:
  struct Counters {
    std::uint64_t requests = 0;
    std::uint64_t driver_allocations = 0;
    std::size_t in_use_bytes = 0;  ///< bytes in blocks that have not been freed
    std::size_t peak_bytes = 0;    ///< the maximum of in_use_bytes so far
    std::size_t cached_bytes = 0;  ///< bytes from the driver that are not in use
    /// Bytes from the driver that are reserved for graphs. The other members do not include them.
    std::size_t graph_bytes = 0;
  };

  /// `device` must outlive this object and all memory that was allocated from it.
  explicit CachingAllocator(Device& device);
  /// Calls trim(). Memory in use may be freed later, while its streams exist or after forget().
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// Allocates memory with undefined content for work on `stream`, aligned to 256 bytes. If the
  /// driver has no memory left, frees the cached memory, which waits for the device, and tries once
  /// more. Then throws DeviceError with the figures.
  Memory allocate(std::size_t bytes, Stream& stream);
  /// Declares that work submitted to `stream` uses `memory` of this allocator. After the memory is
  /// freed, it is not reused before that work has completed. Throws InvalidArgument if the stream
  /// is being captured and the memory does not belong to the graph, because the lifetime of the
  /// graph is unknown.
  void note_use(const Memory& memory, Stream& stream);
  /// Must be called before a stream is destroyed that was passed to allocate() or note_use(),
  /// unless the allocator and its memory have been destroyed. No work may be submitted to the
  /// stream afterwards. Memory that the stream uses may be freed before or after the call, and is
  /// reused after the work of the stream has completed. Records at most one event and does not
  /// wait. Throws InvalidArgument if the stream is being captured.
  void forget(Stream& stream);
  /// Gives cached memory back to the driver, except pieces with a block in use, or with a block of
  /// a stream that is being captured. Waits for the work that uses this memory, and for the work
  /// that its streams have at the time of the call. Returns the number of bytes.
  std::size_t trim();
  Counters counters() const;

 private:
  class Pool;
  std::shared_ptr<Pool> pool_;
};

}  // namespace horo::device
