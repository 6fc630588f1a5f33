#include "collectives/node_memory/shared_memory_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/text/quantity.h"

namespace horo::collectives {

namespace {

struct Address {
  sockaddr_un name{};
  socklen_t bytes = 0;
};

// An abstract address starts with a zero byte.
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

// A message of one byte, with room for a descriptor and the credentials of the sender.
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

// Returns the descriptor in the message if the sender has the user id of this process. Otherwise
// closes it, because the kernel has already added it to this process, and returns a closed
// descriptor.
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

// Processes of other users can also send to an abstract address, so their messages are ignored.
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

namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

[[noreturn]] void throw_error(std::size_t bytes, int error) {
  throw SharedMemoryError(fmt::format("cannot allocate {} of shared memory: {}",
                                      format_bytes(bytes), std::strerror(error)));
}

FileDescriptor make_memory_file() {
#if !defined(MFD_NOEXEC_SEAL)
  constexpr unsigned MFD_NOEXEC_SEAL = 8;  // NOLINT: Linux 6.3
#endif
  // Some systems refuse executable memory files. Kernels before Linux 6.3 do not support
  // MFD_NOEXEC_SEAL.
  int descriptor = memfd_create("horo", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
  if (descriptor < 0 && errno == EINVAL) descriptor = memfd_create("horo", MFD_CLOEXEC);
  if (descriptor < 0)
    throw SharedMemoryError(
        fmt::format("cannot make shared memory (memfd_create): {}", std::strerror(errno)));
  return FileDescriptor(descriptor);
}

}  // namespace

// The kernel does not compare the size of a memfd with the free memory. If it later cannot allocate
// a page, it may kill the process. This check throws an error instead.
void require_free(std::size_t bytes, const FreeMemory& limit) {
  if (bytes <= limit.bytes) return;
  throw SharedMemoryError(fmt::format(
      "cannot allocate {} of shared memory: {} available ({}); request less, start fewer ranks on "
      "the node, or raise the limit (a container: --memory)",
      format_bytes(bytes), format_bytes(limit.bytes / kMebibyte * kMebibyte), limit.limit));
}

SharedMemoryFile SharedMemoryFile::create(std::size_t bytes) {
  FileDescriptor descriptor = make_memory_file();
  if (fchmod(descriptor.get(), 0600) != 0 ||
      ftruncate(descriptor.get(), static_cast<off_t>(bytes)) != 0)
    throw_error(bytes, errno);
  return {std::move(descriptor), bytes};
}

SharedMemoryFile SharedMemoryFile::adopt(FileDescriptor descriptor, std::size_t bytes) {
  struct stat status {};
  if (fstat(descriptor.get(), &status) != 0 || status.st_size != static_cast<off_t>(bytes))
    throw SharedMemoryError(fmt::format("the shared memory that was received has {} bytes, not {}",
                                        status.st_size, bytes));
  return {std::move(descriptor), bytes};
}

SharedMemoryFile::SharedMemoryFile(FileDescriptor descriptor, std::size_t bytes)
    : descriptor_(std::move(descriptor)) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_.get(), 0);
  if (memory == MAP_FAILED) throw_error(bytes, errno);
  bytes_ = {static_cast<std::byte*>(memory), bytes};
  // The kernel follows this hint only if /sys/kernel/mm/transparent_hugepage/shmem_enabled allows
  // huge pages.
  madvise(memory, bytes, MADV_HUGEPAGE);
}

SharedMemoryFile::SharedMemoryFile(SharedMemoryFile&& other) noexcept
    : descriptor_(std::move(other.descriptor_)), bytes_(std::exchange(other.bytes_, {})) {}

SharedMemoryFile::~SharedMemoryFile() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

Range SharedMemoryFile::part_of(std::size_t bytes, int part, int parts) {
  constexpr std::size_t kPage = 4096;
  const Range pages = chunk_of((bytes + kPage - 1) / kPage, static_cast<std::size_t>(parts),
                               static_cast<std::size_t>(part));
  return {std::min(pages.begin * kPage, bytes), std::min(pages.end * kPage, bytes)};
}

// The kernel charges the pages to the cgroup of the process that allocates them, so each rank
// allocates the pages of its own part. posix_fallocate() can report a shortage as an error. If a
// write allocated the page, a shortage would end the process with a signal.
void SharedMemoryFile::claim(int part, int parts) {
  const auto [begin, end] = part_of(bytes_.size(), part, parts);
  if (begin == end) return;
  require_free(end - begin, find_free_memory());
  int error = 0;
  do
    error = posix_fallocate(descriptor_.get(), static_cast<off_t>(begin),
                            static_cast<off_t>(end - begin));
  while (error == EINTR);
  if (error != 0) throw_error(end - begin, error);
}

}  // namespace horo::collectives
