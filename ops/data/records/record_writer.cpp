#include "ops/data/records/record_writer.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>

#include "horo/base/error.h"
#include "horo/base/system/file_descriptor.h"
#include "ops/data/records/record_format.h"

namespace horo::ops {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const char* what) {
  throw Error(fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)));
}

/// A file that is written from its begin to its end, through a buffer.
class OutputFile {
 public:
  static constexpr std::size_t kBuffer = std::size_t{1} << 20;

  explicit OutputFile(fs::path path)
      : path_(std::move(path)),
        file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
    if (!file_.is_open()) fail(path_, "cannot be created");
  }
  void write(std::span<const std::byte> bytes) {
    if (buffer_.size() + bytes.size() > kBuffer) flush();
    if (bytes.size() >= kBuffer)
      write_out(bytes);
    else
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    size_ += bytes.size();
  }
  std::uint64_t size() const { return size_; }
  /// Writes everything to the disk.
  void complete() {
    flush();
    if (::fsync(file_.get()) != 0) fail(path_, "cannot be written to the disk");
  }

 private:
  void flush() {
    write_out(buffer_);
    buffer_.clear();
  }
  void write_out(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(file_.get(), bytes.data(), bytes.size());
      if (count < 0 && errno != EINTR) fail(path_, "cannot be written");
      if (count > 0) bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }

  fs::path path_;
  FileDescriptor file_;
  std::vector<std::byte> buffer_;
  std::uint64_t size_ = 0;
};

void sync_directory(const fs::path& directory) {
  const FileDescriptor file(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file.is_open() || ::fsync(file.get()) != 0) fail(directory, "cannot be written to the disk");
}

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

struct RecordWriter::State {
  fs::path directory;
  std::uint64_t file_bytes = 0;
  std::size_t classes = 0;
  std::string class_names;
  std::string names;
  std::vector<IndexEntry> entries;
  std::vector<std::uint64_t> sizes;  // of completed data files
  std::unique_ptr<OutputFile> data;

  void complete_data_file() {
    if (!data) return;
    data->complete();
    sizes.push_back(data->size());
    data.reset();
  }
};

RecordWriter::RecordWriter(const fs::path& directory, std::vector<std::string> classes,
                           std::uint64_t file_bytes)
    : state_(std::make_unique<State>()) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error)
    throw Error(fmt::format("{}: cannot be created: {}", directory.string(), error.message()));
  HORO_CHECK(fs::is_empty(directory),
             fmt::format("{}: is not empty; name a new directory", directory.string()));
  state_->directory = directory;
  state_->file_bytes = file_bytes;
  state_->classes = classes.size();
  for (const std::string& name : classes) (state_->class_names += name) += '\0';
}

RecordWriter::~RecordWriter() = default;

void RecordWriter::add(std::string_view name, std::int32_t label,
                       std::span<const std::byte> bytes) {
  State& state = *state_;
  HORO_CHECK(label >= 0 && static_cast<std::size_t>(label) < state.classes,
             fmt::format("{}: label {} of {} classes", name, label, state.classes));
  HORO_CHECK(bytes.size() <= std::numeric_limits<std::uint32_t>::max(),
             fmt::format("{}: a record must be smaller than 4 GiB", name));
  if (state.data && state.data->size() + bytes.size() > state.file_bytes)
    state.complete_data_file();
  const auto number = static_cast<std::uint32_t>(state.sizes.size());
  if (!state.data) state.data = std::make_unique<OutputFile>(data_path(state.directory, number));
  state.names += name;
  state.entries.push_back({.offset = state.data->size(),
                           .name_end = state.names.size(),
                           .bytes = static_cast<std::uint32_t>(bytes.size()),
                           .data_file = number,
                           .checksum = checksum_of(bytes),
                           .label = label});
  state.data->write(bytes);
}

// The index is complete or absent: it gets its name after all of its bytes are on the disk.
void RecordWriter::finish() {
  State& state = *state_;
  state.complete_data_file();
  IndexHeader header{.data_files = static_cast<std::uint32_t>(state.sizes.size()),
                     .records = state.entries.size(),
                     .classes = state.classes,
                     .class_bytes = state.class_names.size(),
                     .name_bytes = state.names.size()};
  const std::array parts{bytes_of(state.sizes), bytes_of(state.entries),
                         bytes_of(state.class_names), bytes_of(state.names)};
  for (const auto& part : parts) header.checksum = checksum_of(part, header.checksum);
  header.header_checksum = checksum_of_header(header);
  const fs::path path = index_path(state.directory);
  const fs::path unfinished = path.string() + ".unfinished";
  OutputFile index(unfinished);
  index.write(std::as_bytes(std::span(&header, 1)));
  for (const auto& part : parts) index.write(part);
  index.complete();
  std::error_code error;
  fs::rename(unfinished, path, error);
  if (error) throw Error(fmt::format("{}: cannot be renamed: {}", path.string(), error.message()));
  sync_directory(state.directory);
}

}  // namespace horo::ops
