#pragma once

#include <string>

#include "horo/base/file_descriptor.h"

namespace horo::collectives {

/// Passes open file descriptors between processes of one user on one host: a datagram socket with
/// an abstract address, which disappears with the process. Works between PID namespaces and mount
/// namespaces, but not between network namespaces. Errors are SharedMemoryError. Used by one
/// thread.
class DescriptorSocket {
 public:
  /// Receives at `address`, a name of at most 100 bytes that no other socket has.
  explicit DescriptorSocket(const std::string& address);

  /// The descriptor that was sent here. Does not wait. Ignores what other users have sent.
  FileDescriptor receive();
  /// Sends `descriptor` to the socket at `address`, which then has it, whatever happens here. Does
  /// not wait.
  static void send(int descriptor, const std::string& address);

 private:
  FileDescriptor socket_;
};

}  // namespace horo::collectives
