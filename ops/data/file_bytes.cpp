#include "ops/data/file_bytes.h"

#include <fmt/core.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "horo/base/error.h"

namespace horo::ops {

namespace {

struct CloseGzip {
  void operator()(gzFile file) const noexcept { gzclose(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, CloseGzip>;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& reason) {
  throw InvalidArgument(fmt::format("{}: {}", path.string(), reason));
}

// zlib reports a truncated file as a buffer error, and only at the end of the file.
void check_end(gzFile file, const std::filesystem::path& path) {
  int code = Z_OK;
  const char* text = gzerror(file, &code);
  if (code == Z_BUF_ERROR) refuse(path, "the compressed file ends early; fetch it again");
  if (code == Z_ERRNO) refuse(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  if (code != Z_OK && code != Z_STREAM_END)
    refuse(path, fmt::format("the compressed file is damaged ({}); fetch it again", text));
}

}  // namespace

// gzread() also reads files that are not compressed, so both forms take this path. The size of the
// content is unknown in advance, hence the reads in steps of 1 MiB.
std::vector<std::uint8_t> read_file_bytes(const std::filesystem::path& path) {
  constexpr std::size_t kStep = std::size_t{1} << 20;
  if (std::filesystem::is_directory(path)) refuse(path, "is a directory, not a file");
  errno = 0;
  const GzipFile file(gzopen(path.c_str(), "rb"));
  if (!file) refuse(path, fmt::format("cannot be opened: {}", std::strerror(errno)));
  gzbuffer(file.get(), 1 << 17);
  std::vector<std::uint8_t> bytes;
  std::size_t used = 0;
  for (;;) {
    bytes.resize(used + kStep);
    const int got = gzread(file.get(), bytes.data() + used, kStep);
    if (got <= 0) break;
    used += static_cast<std::size_t>(got);
  }
  check_end(file.get(), path);
  bytes.resize(used);
  return bytes;
}

}  // namespace horo::ops
