#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "collectives/chunks.h"
#include "collectives/mpi/free_memory.h"
#include "horo/base/system/file_descriptor.h"

namespace horo::collectives {

/// Passes open file descriptors between processes of one user on one host, over a datagram socket
/// with an abstract address. The kernel removes the address when the socket is closed or the
/// process ends. Works between PID namespaces and between mount namespaces, but not between network
/// namespaces. The functions throw SharedMemoryError. Used by one thread.
class DescriptorSocket {
 public:
  /// Creates a socket with `address`, a unique name of at most 100 bytes.
  explicit DescriptorSocket(const std::string& address);

  /// Returns the next descriptor in the queue of this socket. Throws if the queue is empty. Does
  /// not wait. Ignores messages from other users.
  FileDescriptor receive();
  /// Sends `descriptor` to the socket at `address`. The receiver gets its own copy, so this process
  /// may close `descriptor` afterwards. Does not wait.
  static void send(int descriptor, const std::string& address);

 private:
  FileDescriptor socket_;
};

/// A memory file without a name (memfd), mapped into this process. The kernel frees the memory when
/// no process has the file mapped or open any more, even if the processes were killed. Move-only.
/// The destructor unmaps the file. The functions throw SharedMemoryError.
class SharedMemoryFile {
 public:
  /// Creates and maps a file of `bytes` zero bytes. No part of the file is claimed yet.
  static SharedMemoryFile create(std::size_t bytes);
  /// Maps a file that another process created. Throws if the size of the file is not `bytes`.
  static SharedMemoryFile adopt(FileDescriptor descriptor, std::size_t bytes);

  SharedMemoryFile(SharedMemoryFile&& other) noexcept;
  SharedMemoryFile& operator=(SharedMemoryFile&&) = delete;
  ~SharedMemoryFile();

  /// Returns the byte range of part `part` if `bytes` are divided into `parts` parts of whole
  /// pages. The parts differ by at most one page. The range ends at `bytes` if the last page is
  /// incomplete.
  static Range part_of(std::size_t bytes, int part, int parts);
  /// Claims a part: allocates its pages now, on the NUMA node of the calling processor. Throws if
  /// the part is larger than the free memory (find_free_memory()). Without this check, the kernel
  /// could kill the process. The process that uses the part most must call this function once.
  void claim(int part, int parts);

  std::span<std::byte> bytes() const { return bytes_; }
  /// Returns the descriptor, which can be passed to other processes. Returns -1 after close().
  int descriptor() const { return descriptor_.get(); }
  /// Closes the descriptor. After this call, this object can neither claim parts nor pass the
  /// descriptor. The mapping stays.
  void close() { descriptor_ = FileDescriptor(); }

 private:
  SharedMemoryFile(FileDescriptor descriptor, std::size_t bytes);

  FileDescriptor descriptor_;
  std::span<std::byte> bytes_;
};

/// Throws SharedMemoryError if `limit` leaves less free memory than `bytes`.
void require_free(std::size_t bytes, const FreeMemory& limit);

}  // namespace horo::collectives
