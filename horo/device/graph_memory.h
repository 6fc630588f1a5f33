#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "horo/device/device.h"

namespace horo::device {

/// The memory of a CachingAllocator for the streams of one capture. The memory belongs to the
/// graph. The driver receives the memory when the graph and all blocks have been destroyed. Within
/// the graph, a stream can reuse memory that was allocated for the same stream and freed, because
/// every launch runs the same work in the same order. Thread-safe.
class GraphMemory : public std::enable_shared_from_this<GraphMemory> {
 public:
  /// `device` must outlive this object. `reserved_bytes` counts the bytes of all graphs.
  GraphMemory(Device& device, std::shared_ptr<std::atomic<std::size_t>> reserved_bytes);
  ~GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  /// See CachingAllocator::allocate(). Throws DeviceError if the driver has no memory left; memory
  /// cached elsewhere is not freed.
  Memory allocate(std::size_t bytes, Stream& stream);
  /// See CachingAllocator::note_use(). Returns false if `data` is not in use in this object. Memory
  /// that several streams use is not reused.
  bool note_use(const void* data, Stream& stream);

 private:
  struct Block {
    std::size_t size;
    void* stream;
    bool is_shared = false;
  };
  std::byte* take(std::size_t size, void* stream);
  void add_piece(std::size_t size, std::size_t asked);
  void put_back(void* data);

  Device& device_;
  const std::shared_ptr<std::atomic<std::size_t>> reserved_bytes_;
  std::mutex mutex_;
  std::vector<Memory> pieces_;  // guarded by mutex_, as are the members below
  std::map<std::size_t, std::vector<std::byte*>> unused_;                   // by size
  std::map<std::pair<std::size_t, void*>, std::vector<std::byte*>> freed_;  // by size and stream
  std::unordered_map<const void*, Block> in_use_;
};

}  // namespace horo::device
