#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace horo::ops {

/// Reads the records of a RecordWriter, in any order, through mappings of the files, whose memory
/// the ranks of a node share. A file must not be cut off while it is open. All members may be
/// called from several threads at once.
class RecordReader {
 public:
  /// Maps the files of `directory`.
  /// Throws InvalidArgument, one line with the file and the remedy, if the directory is no complete
  /// packed data set, or if the index is damaged or of another version.
  explicit RecordReader(const std::filesystem::path& directory);
  ~RecordReader();
  RecordReader(RecordReader&&) noexcept;

  std::size_t size() const;
  const std::vector<std::string>& classes() const;
  /// The name and the label of record `index`, which must be below size().
  std::string_view name(std::size_t index) const;
  std::int32_t label(std::size_t index) const;

  /// Replaces `bytes` by the bytes of record `index`. Throws Error, one line with the file and the
  /// record, if the record cannot be read, is cut off, or does not match its checksum.
  void read(std::size_t index, std::vector<std::byte>& bytes) const;
  /// "DIR/00000.horodata: record 17 (cat/0017.jpg)".
  std::string describe(std::size_t index) const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

/// Whether `directory` has an index of packed records, damaged or not.
bool is_packed(const std::filesystem::path& directory);

}  // namespace horo::ops
