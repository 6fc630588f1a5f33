#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace horo::ops {

/// Writes many small byte strings, the records, into few large files with an index and a checksum
/// for each record. RecordReader reads them. Used from one thread.
class RecordWriter {
 public:
  /// Creates `directory`, which must not exist or be empty. `classes`: the names of the labels.
  /// A data file ends before it would exceed `file_bytes`, unless it has one record only. Throws
  /// InvalidArgument if the directory has files, and Error if it cannot be created.
  RecordWriter(const std::filesystem::path& directory, std::vector<std::string> classes,
               std::uint64_t file_bytes = std::uint64_t{1} << 30);
  /// Without finish(), there is no index, and RecordReader refuses the directory.
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  /// Appends a record. Throws InvalidArgument if the label has no class or the record has 4 GiB or
  /// more, and Error, with the file, if it cannot be written.
  void add(std::string_view name, std::int32_t label, std::span<const std::byte> bytes);
  /// Writes all data to the disk, and then the index. No record may be added afterwards.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace horo::ops
