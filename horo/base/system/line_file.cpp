#include "horo/base/system/line_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "horo/base/error.h"

namespace horo {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

}  // namespace

// `done` is "read" or "written".
void LineFile::refuse(std::string_view done) const {
  throw InvalidArgument(
      fmt::format("{}: {} cannot be {}: {}", setting_, path_, done, std::strerror(errno)));
}

std::optional<std::string> LineFile::read() const {
  const File file(std::fopen(path_.c_str(), "r"));
  // A missing file is not an error, because the first job creates the file.
  if (file == nullptr && errno == ENOENT) return std::nullopt;
  std::string text;
  char block[4096];
  if (file != nullptr)
    while (const std::size_t size = std::fread(block, 1, sizeof block, file.get()))
      text.append(block, size);
  if (file == nullptr || std::ferror(file.get())) refuse("read");
  return text;
}

// In append mode, fclose() writes a short text with one system call. So jobs that append at the
// same time do not mix their lines.
void LineFile::append(std::string_view line, std::string_view explanation) const {
  File file(std::fopen(path_.c_str(), "a"));
  if (file == nullptr) refuse("written");
  std::fseek(file.get(), 0, SEEK_END);
  const std::string text =
      fmt::format("{}{}\n", std::ftell(file.get()) == 0 ? explanation : "", line);
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  if (std::fclose(file.release()) != 0 || !is_written) refuse("written");
}

std::string_view take_until(std::string_view& text, char end) {
  const std::size_t length = std::min(text.find(end), text.size());
  const std::string_view taken = text.substr(0, length);
  text.remove_prefix(std::min(length + 1, text.size()));
  return taken;
}

}  // namespace horo
