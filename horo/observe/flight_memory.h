#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace horo::observe {

/// Zero-initialised memory that is a file's, so that it outlives the process, or nobody's. Movable
/// in no way: others hold pointers into it.
class FlightMemory {
 public:
  /// `path` empty: memory of the process alone. Otherwise the file is made (0600, in place of one
  /// that is there), its blocks are allocated, and it is mapped. Throws Error that says why not.
  FlightMemory(const std::string& path, std::size_t bytes);
  ~FlightMemory();
  FlightMemory(const FlightMemory&) = delete;
  FlightMemory& operator=(const FlightMemory&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace horo::observe
