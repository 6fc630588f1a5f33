#pragma once

#include <cstddef>
#include <span>

#include "collectives/chunks.h"
#include "collectives/mpi/free_memory.h"
#include "horo/base/file_descriptor.h"

namespace horo::collectives {

/// A file without a name in memory (memfd), mapped into this process. The memory lives until the
/// last process that has mapped it or has its descriptor ends, however it ends: there is nothing to
/// remove. Move-only; the destructor unmaps. Errors are SharedMemoryError.
class SharedMemoryFile {
 public:
  /// Makes `bytes` of zeroed memory, none of which is claimed yet.
  static SharedMemoryFile create(std::size_t bytes);
  /// Maps the memory of another process, of which it has passed a descriptor.
  static SharedMemoryFile adopt(FileDescriptor descriptor, std::size_t bytes);

  SharedMemoryFile(SharedMemoryFile&& other) noexcept;
  SharedMemoryFile& operator=(SharedMemoryFile&&) = delete;
  ~SharedMemoryFile();

  /// The bytes of part number `part` of `parts` equal ones, in whole pages.
  static Range part_of(std::size_t bytes, int part, int parts);
  /// Claims that part. Refuses more than is free (find_free_memory()): an error that says how much
  /// is missing comes now, not as a SIGBUS or an out-of-memory kill later, and the memory lies on
  /// the NUMA node of the processor that this runs on. Once for each part, by the process that uses
  /// it most.
  void claim(int part, int parts);

  std::span<std::byte> bytes() const { return bytes_; }
  /// To be passed to other processes; -1 after close().
  int descriptor() const { return descriptor_.get(); }
  /// Closes the descriptor; nothing more can be claimed or passed. The memory stays.
  void close() { descriptor_ = FileDescriptor(); }

 private:
  SharedMemoryFile(FileDescriptor descriptor, std::size_t bytes);

  FileDescriptor descriptor_;
  std::span<std::byte> bytes_;
};

/// Throws SharedMemoryError if `limit` leaves less than `bytes`.
void require_free(std::size_t bytes, const FreeMemory& limit);

}  // namespace horo::collectives
