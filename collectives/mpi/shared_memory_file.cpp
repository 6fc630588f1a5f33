#include "collectives/mpi/shared_memory_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/quantity.h"

namespace horo::collectives {
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
  // Some systems refuse memory that may be executed; older ones do not know the flag.
  int descriptor = memfd_create("horo", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
  if (descriptor < 0 && errno == EINVAL) descriptor = memfd_create("horo", MFD_CLOEXEC);
  if (descriptor < 0)
    throw SharedMemoryError(
        fmt::format("cannot make shared memory (memfd_create): {}", std::strerror(errno)));
  return FileDescriptor(descriptor);
}

}  // namespace

// Nothing but this check limits a memfd: the kernel kills a process that claims what is not there.
void require_free(std::size_t bytes, const FreeMemory& limit) {
  if (bytes <= limit.bytes) return;
  throw SharedMemoryError(fmt::format(
      "cannot allocate {} of shared memory: {} are free ({}). Ask for less, start fewer ranks on "
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
  // A wish, which the system grants if shmem_enabled in /sys/kernel/mm/transparent_hugepage allows.
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
