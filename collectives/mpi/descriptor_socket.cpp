#include "collectives/mpi/descriptor_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "horo/base/error.h"

namespace horo::collectives {
namespace {

struct Address {
  sockaddr_un name{};
  socklen_t bytes = 0;
};

// The first byte of an abstract address is 0.
Address abstract_address(const std::string& text) {
  Address address;
  HORO_CHECK(text.size() < sizeof address.name.sun_path, "the address of a socket is too long");
  address.name.sun_family = AF_UNIX;
  text.copy(address.name.sun_path + 1, text.size());
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return address;
}

FileDescriptor make_socket() {
  FileDescriptor made(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.is_open())
    throw SharedMemoryError(
        fmt::format("cannot make a Unix socket to share memory: {}", std::strerror(errno)));
  return made;
}

/// One message of one byte, with room for a descriptor and the sender's credentials.
struct Message {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(ucred))] = {};
  msghdr header{};

  Message() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
};

// Takes the descriptor in any case, so that it is closed if the sender is a stranger.
FileDescriptor descriptor_from_own_user(Message& message) {
  FileDescriptor descriptor;
  bool is_of_own_user = false;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message.header); part != nullptr;
       part = CMSG_NXTHDR(&message.header, part)) {
    if (part->cmsg_level != SOL_SOCKET) continue;
    if (part->cmsg_type == SCM_RIGHTS) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(part), sizeof number);
      descriptor = FileDescriptor(number);
    }
    if (part->cmsg_type == SCM_CREDENTIALS) {
      ucred sender{};
      std::memcpy(&sender, CMSG_DATA(part), sizeof sender);
      is_of_own_user = sender.uid == getuid();
    }
  }
  return is_of_own_user ? std::move(descriptor) : FileDescriptor();
}

}  // namespace

DescriptorSocket::DescriptorSocket(const std::string& address) : socket_(make_socket()) {
  const int yes = 1;
  const Address own = abstract_address(address);
  if (setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) != 0 ||
      bind(socket_.get(), reinterpret_cast<const sockaddr*>(&own.name), own.bytes) != 0)
    throw SharedMemoryError(
        fmt::format("cannot bind a Unix socket to share memory: {}", std::strerror(errno)));
}

FileDescriptor DescriptorSocket::receive() {
  for (;;) {
    Message message;
    const ssize_t count = recvmsg(socket_.get(), &message.header, MSG_CMSG_CLOEXEC);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw SharedMemoryError(fmt::format(
          "no shared memory was received from the first rank of the node: {}; the limit on open "
          "files (ulimit -n) may be reached",
          std::strerror(errno)));
    FileDescriptor descriptor = descriptor_from_own_user(message);
    if (descriptor.is_open()) return descriptor;
  }
}

void DescriptorSocket::send(int descriptor, const std::string& address) {
  const FileDescriptor from = make_socket();
  Address to = abstract_address(address);
  Message message;
  message.header.msg_name = &to.name;
  message.header.msg_namelen = to.bytes;
  message.header.msg_controllen = CMSG_SPACE(sizeof descriptor);
  cmsghdr* part = CMSG_FIRSTHDR(&message.header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(part), &descriptor, sizeof descriptor);
  ssize_t count = 0;
  do count = sendmsg(from.get(), &message.header, MSG_NOSIGNAL);
  while (count < 0 && errno == EINTR);
  if (count < 0)
    throw SharedMemoryError(
        fmt::format("cannot pass shared memory to another rank of the node: {}; are the node's "
                    "ranks on one host and in one network namespace?",
                    std::strerror(errno)));
}

}  // namespace horo::collectives
