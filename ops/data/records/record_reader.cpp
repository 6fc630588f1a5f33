#include "ops/data/records/record_reader.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>

#include "horo/base/error.h"
#include "horo/base/system/file_descriptor.h"
#include "ops/data/records/record_format.h"

namespace horo::ops {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& reason) {
  throw InvalidArgument(fmt::format("{}: {}", path.string(), reason));
}

FileDescriptor open_file(const fs::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open())
    refuse(path, fmt::format("cannot be opened: {}; pack the data set again if it is incomplete",
                             std::strerror(errno)));
  return file;
}

/// A file in memory. Its pages are shared with other processes.
class MappedFile {
 public:
  explicit MappedFile(const fs::path& path) {
    const FileDescriptor file = open_file(path);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) refuse(path, std::strerror(errno));
    bytes_ = static_cast<std::size_t>(status.st_size);
    if (bytes_ == 0) return;
    address_ = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file.get(), 0);
    if (address_ == MAP_FAILED)
      refuse(path, fmt::format("cannot be mapped: {}", std::strerror(errno)));
  }
  ~MappedFile() {
    if (bytes_ > 0) ::munmap(address_, bytes_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(address_), bytes_};
  }

 private:
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
};

IndexHeader check_header(const fs::path& path, std::span<const std::byte> index) {
  IndexHeader header;
  if (index.size() < sizeof header)
    refuse(path, fmt::format("has only {} bytes; pack the data set again", index.size()));
  std::memcpy(&header, index.data(), sizeof header);
  if (header.magic != kIndexMagic)
    refuse(path, "is not an index of packed records; check that the directory is the right one");
  if (header.version != kIndexVersion)
    refuse(path, fmt::format("has version {}; this horo reads version {}; pack the data set again",
                             header.version, kIndexVersion));
  if (header.header_checksum != checksum_of_header(header))
    refuse(path, "its header is damaged; pack the data set again");
  // The header is as it was written, so the product cannot overflow.
  const std::uint64_t expected = sizeof header + 8 * std::uint64_t{header.data_files} +
                                 sizeof(IndexEntry) * header.records + header.class_bytes +
                                 header.name_bytes;
  if (index.size() != expected)
    refuse(path, fmt::format("has {} bytes, its header specifies {}; pack the data set again",
                             index.size(), expected));
  if (header.checksum != checksum_of(index.subspan(sizeof header)))
    refuse(path, "does not match its checksum; pack the data set again");
  return header;
}

}  // namespace

struct RecordReader::State {
  explicit State(const fs::path& directory_) : directory(directory_), index(index_path(directory)) {
    const IndexHeader header = check_header(index_path(directory), index.bytes());
    auto rest = index.bytes().subspan(sizeof header + 8 * header.data_files);
    entries = {reinterpret_cast<const IndexEntry*>(rest.data()), header.records};
    rest = rest.subspan(entries.size_bytes());
    const char* const text = reinterpret_cast<const char*>(rest.data());
    for (const char* name = text; name < text + header.class_bytes; name += std::strlen(name) + 1)
      classes.emplace_back(name);
    names = {text + header.class_bytes, header.name_bytes};
    for (std::uint32_t file = 0; file < header.data_files; ++file)
      files.emplace_back(data_path(directory, file));
  }

  const fs::path directory;
  const MappedFile index;
  std::span<const IndexEntry> entries;
  std::vector<std::string> classes;
  std::string_view names;
  std::deque<MappedFile> files;
};

RecordReader::RecordReader(const fs::path& directory) {
  if (!is_packed(directory))
    refuse(directory,
           "has no index.horopack: it is not a packed data set, or packing was interrupted; pack "
           "it with `hororun pack`");
  state_ = std::make_unique<const State>(directory);
}
RecordReader::~RecordReader() = default;
RecordReader::RecordReader(RecordReader&&) noexcept = default;

bool is_packed(const fs::path& directory) { return fs::exists(index_path(directory)); }

std::size_t RecordReader::size() const { return state_->entries.size(); }

const std::vector<std::string>& RecordReader::classes() const { return state_->classes; }

std::string_view RecordReader::name(std::size_t index) const {
  const std::uint64_t begin = index == 0 ? 0 : state_->entries[index - 1].name_end;
  return state_->names.substr(begin, state_->entries[index].name_end - begin);
}

std::int32_t RecordReader::label(std::size_t index) const { return state_->entries[index].label; }

std::string RecordReader::describe(std::size_t index) const {
  return fmt::format("{}: record {} ({})",
                     data_path(state_->directory, state_->entries[index].data_file).string(), index,
                     name(index));
}

// The file may be shorter than it was when it was packed.
void RecordReader::read(std::size_t index, std::vector<std::byte>& bytes) const {
  const IndexEntry& entry = state_->entries[index];
  const auto file = state_->files[entry.data_file].bytes();
  const std::uint64_t end = entry.offset + entry.bytes;
  if (end > file.size())
    throw Error(
        fmt::format("{}: the file ends at byte {}, the record at byte {}; pack the data "
                    "set again",
                    describe(index), file.size(), end));
  const auto record = file.subspan(entry.offset, entry.bytes);
  bytes.assign(record.begin(), record.end());
  const std::uint32_t checksum = checksum_of(bytes);
  if (checksum != entry.checksum)
    throw Error(
        fmt::format("{}: has the checksum {:08x}, not {:08x}: it is damaged; pack the data "
                    "set again",
                    describe(index), checksum, entry.checksum));
}

}  // namespace horo::ops
