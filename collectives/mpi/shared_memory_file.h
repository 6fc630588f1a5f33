#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "collectives/chunks.h"
#include "collectives/mpi/free_memory.h"
#include "horo/base/system/file_descriptor.h"

namespace horo::collectives {

/// Passes open file descriptors between processes of one user on one host, over a datagram socket
/// with an abstract address, which disappears with the process. Works between PID namespaces and
/// between mount namespaces, but not between network namespaces. Errors are SharedMemoryError. Used
/// by one thread.
class DescriptorSocket {
 public:
  /// Creates a socket with `address`, a unique name of at most 100 bytes.
  explicit DescriptorSocket(const std::string& address);

  /// Returns a descriptor that was sent to this socket, if any. Does not wait. Ignores messages
  /// from other users.
  FileDescriptor receive();
  /// Sends `descriptor` to the socket at `address`. The receiver gets its own copy, so this process
  /// may close it. Does not wait.
  static void send(int descriptor, const std::string& address);

 private:
  FileDescriptor socket_;
};

/// A memory file without a name (memfd), mapped into this process. The memory is freed when the
/// last process that has mapped it or has its descriptor ends, in any way. Move-only; the
/// destructor unmaps. Errors are SharedMemoryError.
class SharedMemoryFile {
 public:
  /// Creates `bytes` of zeroed memory. None of it is claimed yet.
  static SharedMemoryFile create(std::size_t bytes);
  /// Maps the memory of another process, given its descriptor.
  static SharedMemoryFile adopt(FileDescriptor descriptor, std::size_t bytes);

  SharedMemoryFile(SharedMemoryFile&& other) noexcept;
  SharedMemoryFile& operator=(SharedMemoryFile&&) = delete;
  ~SharedMemoryFile();

  /// Returns the bytes of part `part` of `parts` equal parts. Parts consist of whole pages, except
  /// that the last one may end within a page.
  static Range part_of(std::size_t bytes, int part, int parts);
  /// Claims a part: allocates its pages now, on the NUMA node of the calling processor. Throws if
  /// the part is larger than the free memory (find_free_memory()); without this check, a later
  /// access would end in SIGBUS or an out-of-memory kill. Called once per part, by the process that
  /// uses it most.
  void claim(int part, int parts);

  std::span<std::byte> bytes() const { return bytes_; }
  /// The descriptor, to pass to other processes; -1 after close().
  int descriptor() const { return descriptor_.get(); }
  /// Closes the descriptor. Parts can no longer be claimed or passed. The mapping stays.
  void close() { descriptor_ = FileDescriptor(); }

 private:
  SharedMemoryFile(FileDescriptor descriptor, std::size_t bytes);

  FileDescriptor descriptor_;
  std::span<std::byte> bytes_;
};

/// Throws SharedMemoryError if `limit` leaves less than `bytes`.
void require_free(std::size_t bytes, const FreeMemory& limit);

}  // namespace horo::collectives
