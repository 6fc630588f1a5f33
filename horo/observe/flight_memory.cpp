#include "horo/observe/flight_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "horo/base/error.h"

namespace horo::observe {
namespace {

[[noreturn]] void throw_system_error(const std::string& path, int error) {
  throw Error(fmt::format("{}: {}", path, std::strerror(error)));
}

// A file with all its blocks: a write to a hole could find the disk full, which ends the process.
int create_file(const std::string& path, std::size_t bytes) {
  ::unlink(path.c_str());
  const int descriptor = open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0) throw_system_error(path, errno);
  int error = 0;
  do error = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  while (error == EINTR);
  if (error == 0) return descriptor;
  close(descriptor);
  ::unlink(path.c_str());
  throw_system_error(path, error);
}

}  // namespace

FlightMemory::FlightMemory(const std::string& path, std::size_t bytes) {
  const int descriptor = path.empty() ? -1 : create_file(path, bytes);
  const int flags = path.empty() ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED | MAP_POPULATE;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  if (memory == MAP_FAILED) throw_system_error(path.empty() ? "memory" : path, error);
  bytes_ = {static_cast<std::byte*>(memory), bytes};
}

FlightMemory::~FlightMemory() { munmap(bytes_.data(), bytes_.size()); }

}  // namespace horo::observe
