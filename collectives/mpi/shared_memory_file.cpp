#include "collectives/mpi/shared_memory_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <random>
#include <utility>

#include "collectives/chunks.h"
#include "horo/base/error.h"
#include "horo/base/quantity.h"

namespace horo::collectives {
namespace {

std::string random_name() {
  std::random_device device;
  return fmt::format("/horo.{}.{:08x}{:08x}", getpid(), device(), device());
}

[[noreturn]] void throw_no_space(std::size_t bytes, std::size_t free_bytes) {
  throw SharedMemoryError(fmt::format(
      "/dev/shm is too small: horo needs {} of shared memory, {} are free there. Make /dev/shm "
      "larger (a container: start it with a larger --shm-size), or remove what fills it",
      format_bytes(bytes), format_bytes(free_bytes)));
}

// What /dev/shm has left; unknown: everything.
std::size_t free_bytes_of(int descriptor) {
  struct statvfs space {};
  if (fstatvfs(descriptor, &space) != 0 || space.f_blocks == 0)
    return std::numeric_limits<std::size_t>::max();
  return static_cast<std::size_t>(space.f_bavail) * space.f_frsize;
}

}  // namespace

SharedMemoryFile SharedMemoryFile::create(std::size_t bytes) {
  std::string name;
  int descriptor = -1;
  do {
    name = random_name();
    descriptor = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  } while (descriptor < 0 && (errno == EEXIST || errno == EINTR));
  if (descriptor < 0)
    throw SharedMemoryError(
        fmt::format("shared memory could not be made in /dev/shm: {}", std::strerror(errno)));
  SharedMemoryFile file(std::move(name), descriptor);
  file.is_linked_ = true;
  if (const std::size_t free_bytes = free_bytes_of(descriptor); free_bytes < bytes)
    throw_no_space(bytes, free_bytes);
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) != 0)
    throw SharedMemoryError(fmt::format("{} of shared memory could not be made in /dev/shm: {}",
                                        format_bytes(bytes), std::strerror(errno)));
  file.map(bytes);
  return file;
}

SharedMemoryFile SharedMemoryFile::open(const std::string& name, std::size_t bytes) {
  const int descriptor = shm_open(name.c_str(), O_RDWR, 0600);
  if (descriptor < 0)
    throw SharedMemoryError(fmt::format(
        "the shared memory {} could not be opened: {}; do the node's ranks see the same /dev/shm?",
        name, std::strerror(errno)));
  SharedMemoryFile file(name, descriptor);
  file.map(bytes);
  return file;
}

SharedMemoryFile::SharedMemoryFile(SharedMemoryFile&& other) noexcept
    : name_(std::move(other.name_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(std::exchange(other.bytes_, {})),
      is_linked_(std::exchange(other.is_linked_, false)) {}

SharedMemoryFile::~SharedMemoryFile() {
  unlink();
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

void SharedMemoryFile::claim(int part, int parts) {
  constexpr std::size_t kPage = 4096;
  const Range pages = chunk_of((bytes_.size() + kPage - 1) / kPage, static_cast<std::size_t>(parts),
                               static_cast<std::size_t>(part));
  const std::size_t end = std::min(pages.end * kPage, bytes_.size());
  if (pages.begin * kPage >= end) return;
  int error = 0;
  do
    error = posix_fallocate(descriptor_, static_cast<off_t>(pages.begin * kPage),
                            static_cast<off_t>(end - pages.begin * kPage));
  while (error == EINTR);
  if (error == ENOSPC) throw_no_space(end - pages.begin * kPage, free_bytes_of(descriptor_));
  if (error != 0)
    throw SharedMemoryError(fmt::format("{} of shared memory could not be had in /dev/shm: {}",
                                        format_bytes(bytes_.size()), std::strerror(error)));
}

void SharedMemoryFile::unlink() noexcept {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
  if (std::exchange(is_linked_, false)) shm_unlink(name_.c_str());
}

void SharedMemoryFile::map(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory == MAP_FAILED)
    throw SharedMemoryError(fmt::format("{} of shared memory could not be mapped: {}",
                                        format_bytes(bytes), std::strerror(errno)));
  bytes_ = {static_cast<std::byte*>(memory), bytes};
  madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: most systems refuse it for shared memory
}

}  // namespace horo::collectives
