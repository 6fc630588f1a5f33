#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "horo/base/device/device.h"

namespace horo::device {

/// What a CachingAllocator gives to the streams of one capture. It is the graph's alone: the driver
/// has it back once graph and memory are gone. Within the graph a stream has again what it has
/// freed, as every launch does the same in the same order. Thread-safe.
class GraphMemory : public std::enable_shared_from_this<GraphMemory> {
 public:
  /// `device` outlives this. `reserved_bytes`: what all graphs have of the driver.
  GraphMemory(Device& device, std::shared_ptr<std::atomic<std::size_t>> reserved_bytes);
  ~GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  /// CachingAllocator::allocate(). Throws DeviceError if the driver has no more; what is cached
  /// elsewhere is not given back for it.
  Memory allocate(std::size_t bytes, Stream& stream);
  /// Returns false if `data` is not in use here. What several streams use is not given again.
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
  std::vector<Memory> pieces_;                             // guarded by mutex_, as what follows
  std::map<std::size_t, std::vector<std::byte*>> unused_;  // by size
  std::map<std::pair<std::size_t, void*>, std::vector<std::byte*>> freed_;  // and stream
  std::unordered_map<const void*, Block> in_use_;
};

}  // namespace horo::device
