#include "horo/base/system/durable_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "horo/base/error.h"
#include "horo/base/system/file_descriptor.h"

namespace horo {
namespace {

[[noreturn]] void fail(std::string_view what, const std::filesystem::path& path) {
  throw Error(fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(errno)));
}

FileDescriptor open_or_fail(const std::filesystem::path& path, int flags, std::string_view what) {
  constexpr mode_t kMode = 0666;  // less the umask
  FileDescriptor file(::open(path.c_str(), flags | O_CLOEXEC, kMode));
  if (!file.is_open()) fail(what, path);
  return file;
}

void write_all(const FileDescriptor& file, std::span<const std::byte> bytes,
               const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("write", path);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace

void write_durably(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::filesystem::path temporary = path;
  temporary += kTemporarySuffix;
  {
    const FileDescriptor file = open_or_fail(temporary, O_WRONLY | O_CREAT | O_TRUNC, "create");
    write_all(file, bytes, temporary);
    if (::fsync(file.get()) != 0) fail("write", temporary);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) fail("rename to", path);
  // The name is on the disk once the directory is.
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  const FileDescriptor directory = open_or_fail(parent, O_RDONLY | O_DIRECTORY, "open");
  if (::fsync(directory.get()) != 0) fail("write", parent);
}

std::vector<std::byte> read_whole_file(const std::filesystem::path& path) {
  const FileDescriptor file = open_or_fail(path, O_RDONLY, "read");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail("read", path);
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t used = 0;
  while (used < bytes.size()) {
    const ssize_t count = ::read(file.get(), bytes.data() + used, bytes.size() - used);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("read", path);
    if (count == 0) break;  // another process has truncated the file
    used += static_cast<std::size_t>(count);
  }
  bytes.resize(used);
  return bytes;
}

}  // namespace horo
