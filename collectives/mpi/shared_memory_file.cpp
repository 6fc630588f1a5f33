#include "collectives/mpi/shared_memory_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "horo/base/error.h"
#include "horo/base/quantity.h"

namespace horo::collectives {
namespace {

// Closes a file descriptor when a scope ends.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  int get() const { return number_; }

 private:
  int number_;
};

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

void claim(int descriptor, std::size_t bytes) {
  struct statvfs space {};
  std::size_t free_bytes = 0;
  if (fstatvfs(descriptor, &space) == 0) {
    free_bytes = static_cast<std::size_t>(space.f_bavail) * space.f_frsize;
    if (space.f_blocks != 0 && free_bytes < bytes) throw_no_space(bytes, free_bytes);
  }
  int error = 0;
  do error = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  while (error == EINTR);
  if (error == ENOSPC) throw_no_space(bytes, free_bytes);
  if (error != 0)
    throw SharedMemoryError(fmt::format("{} of shared memory could not be had in /dev/shm: {}",
                                        format_bytes(bytes), std::strerror(error)));
}

}  // namespace

SharedMemoryFile SharedMemoryFile::create(std::size_t bytes) {
  SharedMemoryFile file;
  int number = -1;
  do {
    file.name_ = random_name();
    number = shm_open(file.name_.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  } while (number < 0 && (errno == EEXIST || errno == EINTR));
  if (number < 0)
    throw SharedMemoryError(
        fmt::format("shared memory could not be made in /dev/shm: {}", std::strerror(errno)));
  const Descriptor descriptor(number);
  file.is_linked_ = true;
  claim(descriptor.get(), bytes);
  file.map(descriptor.get(), bytes);
  return file;
}

SharedMemoryFile SharedMemoryFile::open(const std::string& name, std::size_t bytes) {
  SharedMemoryFile file;
  file.name_ = name;
  const Descriptor descriptor(shm_open(name.c_str(), O_RDWR, 0600));
  if (descriptor.get() < 0)
    throw SharedMemoryError(fmt::format(
        "the shared memory {} could not be opened: {}; do the node's ranks see the same /dev/shm?",
        name, std::strerror(errno)));
  file.map(descriptor.get(), bytes);
  return file;
}

SharedMemoryFile::SharedMemoryFile(SharedMemoryFile&& other) noexcept
    : name_(std::move(other.name_)),
      bytes_(std::exchange(other.bytes_, {})),
      is_linked_(std::exchange(other.is_linked_, false)) {}

SharedMemoryFile::~SharedMemoryFile() {
  unlink();
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

void SharedMemoryFile::unlink() noexcept {
  if (std::exchange(is_linked_, false)) shm_unlink(name_.c_str());
}

void SharedMemoryFile::map(int descriptor, std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED)
    throw SharedMemoryError(fmt::format("{} of shared memory could not be mapped: {}",
                                        format_bytes(bytes), std::strerror(errno)));
  bytes_ = {static_cast<std::byte*>(memory), bytes};
  madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: most systems refuse it for shared memory
}

}  // namespace horo::collectives
