#include "horo/metrics/metrics_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "horo/base/error.h"

namespace horo::metrics {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_errno(const fs::path& path) {
  throw Error(fmt::format("{}: {}", path.string(), std::strerror(errno)));
}

FileDescriptor open_file(const fs::path& path, int flags) {
  FileDescriptor file(open(path.c_str(), flags | O_CREAT | O_CLOEXEC, 0644));
  if (file.get() < 0) throw_errno(path);
  return file;
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Returns the length of the file up to the end of its last complete line.
off_t end_of_lines(int file, off_t length) {
  char block[4096];
  while (length > 0) {
    const off_t from = std::max<off_t>(length - static_cast<off_t>(sizeof block), 0);
    const ssize_t count = pread(file, block, static_cast<std::size_t>(length - from), from);
    if (count <= 0) return length;
    for (ssize_t i = count; i > 0; --i)
      if (block[i - 1] == '\n') return from + i;
    length = from;
  }
  return 0;
}

fs::path make_directory(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) throw Error(fmt::format("{}: {}", directory.string(), error.message()));
  return directory;
}

fs::path temporary_of(const fs::path& page) { return page.string() + ".new"; }

}  // namespace

// A killed process may have left an incomplete last line. The constructor removes that line, so
// that the first line of this process starts at the beginning of a line.
MetricsFiles::MetricsFiles(const fs::path& directory, int rank)
    : lines_path_(make_directory(directory) / fmt::format("rank.{}.jsonl", rank)),
      page_path_(directory / fmt::format("rank.{}.prom", rank)),
      lines_(open_file(lines_path_, O_RDWR | O_APPEND)) {
  struct stat status {};
  if (fstat(lines_.get(), &status) != 0) throw_errno(lines_path_);
  const off_t whole = end_of_lines(lines_.get(), status.st_size);
  if (whole != status.st_size && ftruncate(lines_.get(), whole) != 0) throw_errno(lines_path_);
  if (!replace_page("")) throw_errno(page_path_);
}

bool MetricsFiles::append(std::string_view lines) {
  const off_t before = lseek(lines_.get(), 0, SEEK_END);
  if (write_all(lines_.get(), lines)) return true;
  // An incomplete line would corrupt the next line.
  (void)!ftruncate(lines_.get(), before);
  return false;
}

// Writes a new file and renames it, so that Prometheus never reads an incomplete page.
bool MetricsFiles::replace_page(std::string_view page) {
  const fs::path temporary = temporary_of(page_path_);
  {
    const FileDescriptor file(
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (file.get() < 0 || !write_all(file.get(), page)) return false;
  }
  return std::rename(temporary.c_str(), page_path_.c_str()) == 0;
}

}  // namespace horo::metrics
