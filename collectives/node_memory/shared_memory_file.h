#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "collectives/chunks.h"
#include "collectives/node_memory/free_memory.h"
#include "horo/base/system/file_descriptor.h"

namespace horo::collectives {

/// Passes open file descriptors between processes of one user on one host, over a datagram socket
/// with an abstract address. The kernel removes the address when the socket is closed or the
/// process ends. Works between PID namespaces and between mount namespaces, but not between network
/// namespaces. The functions throw SharedMemoryError if they fail. Only one thread at a time may
/// use an object.
class DescriptorSocket {
 public:
  /// Creates a socket with `address`, which must be unique on the host and have at most 107 bytes.
  explicit DescriptorSocket(const std::string& address);

  /// Returns the next descriptor that is in the queue of this socket. Ignores messages from other
  /// users. Does not wait: throws if the queue holds no descriptor.
  FileDescriptor receive();
  /// Sends `descriptor` to the socket at `address`. The receiver gets its own copy, so this process
  /// may close `descriptor` afterwards. Does not wait: throws if the socket cannot accept the
  /// message.
  static void send(int descriptor, const std::string& address);

 private:
  FileDescriptor socket_;
};

/// A memory file (memfd), which has no name in a file system, mapped into this process. The kernel
/// frees the memory when no process has the file mapped or open any more, even if the processes
/// were killed. Move-only. The destructor unmaps and closes the file. The functions throw
/// SharedMemoryError if they fail.
class SharedMemoryFile {
 public:
  /// Creates and maps a file of `bytes` zero bytes, with `bytes` above 0. No page of the file is
  /// allocated yet; see claim().
  static SharedMemoryFile create(std::size_t bytes);
  /// Maps a file that another process created. Throws if the size of the file is not `bytes`.
  static SharedMemoryFile adopt(FileDescriptor descriptor, std::size_t bytes);

  SharedMemoryFile(SharedMemoryFile&& other) noexcept;
  SharedMemoryFile& operator=(SharedMemoryFile&&) = delete;
  ~SharedMemoryFile();

  /// Divides `bytes` bytes into `parts` parts of whole pages and returns the byte range of part
  /// `part`. The numbers of pages of two parts differ by at most one. If the last page is
  /// incomplete, the last range ends at `bytes`.
  static Range part_of(std::size_t bytes, int part, int parts);
  /// Claims a part: allocates its pages. By default, the kernel places them on the NUMA node of the
  /// calling thread. The process that uses the part most should therefore make this call, once.
  /// Throws if the part is larger than the free memory (find_free_memory()). Without this check,
  /// the kernel could kill the process.
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

/// Throws SharedMemoryError if limit.bytes is less than `bytes`.
void require_free(std::size_t bytes, const FreeMemory& limit);

}  // namespace horo::collectives
