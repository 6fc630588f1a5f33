#include "ops/data/records/read_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "horo/base/error.h"
#include "horo/base/system/file_descriptor.h"

namespace horo::ops {

// The size of the file is only a hint: the loop reads to the end, whatever it is.
void read_file(const std::filesystem::path& path, std::vector<std::byte>& bytes) {
  const auto fail = [&] {
    throw Error(fmt::format("{}: cannot be read: {}", path.string(), std::strerror(errno)));
  };
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) fail();
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail();
  bytes.resize(static_cast<std::size_t>(status.st_size) + 1);
  std::size_t used = 0;
  for (;;) {
    const ssize_t count = ::read(file.get(), bytes.data() + used, bytes.size() - used);
    if (count < 0 && errno != EINTR) fail();
    if (count == 0) break;
    if (count > 0) used += static_cast<std::size_t>(count);
    if (used == bytes.size()) bytes.resize(2 * bytes.size());
  }
  bytes.resize(used);
}

}  // namespace horo::ops
