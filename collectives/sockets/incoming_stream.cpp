#include "collectives/sockets/incoming_stream.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace horo::collectives {

// Returns whether `wanted` bytes were received. `received` counts them between calls.
bool IncomingStream::fill(std::byte* to, std::size_t wanted, std::size_t& received) {
  while (received < wanted && failure_.empty()) {
    const ssize_t n = recv(socket_.get(), to + received, wanted - received, 0);
    if (n > 0) {
      received += static_cast<std::size_t>(n);
    } else if (n == 0) {
      failure_ = "it has closed its connection";
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return false;
    } else if (errno != EINTR) {
      failure_ = fmt::format("its connection was closed: {}", std::strerror(errno));
    }
  }
  return received == wanted;
}

const MessageHeader* IncomingStream::receive_header() {
  const bool is_complete =
      fill(reinterpret_cast<std::byte*>(&header_), sizeof header_, header_bytes_);
  return is_complete ? &header_ : nullptr;
}

bool IncomingStream::receive_bytes(std::span<std::byte> bytes) {
  return fill(bytes.data(), bytes.size(), received_);
}

void IncomingStream::finish_message() { header_bytes_ = received_ = 0; }

}  // namespace horo::collectives
