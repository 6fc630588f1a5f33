#pragma once

#include <cstdint>
#include <filesystem>

namespace horo::ops {

/// What pack_folder() has written, or check_records() has read.
struct PackReport {
  std::size_t records = 0;
  std::size_t classes = 0;
  std::uint64_t bytes = 0;  ///< of the records
  std::size_t damaged = 0;  ///< records; check_records() only
};

/// Packs the files of a folder with one sub-folder per class; see list_labelled_files() and
/// RecordWriter. The order of the records is that of the files. Throws Error, one line with the
/// file, if a file cannot be read or written.
PackReport pack_folder(const std::filesystem::path& source, const std::filesystem::path& target,
                       std::uint64_t file_bytes);

/// Reads all records of `directory` and logs an error for each damaged one. Throws as RecordReader
/// does if the index is damaged.
PackReport check_records(const std::filesystem::path& directory);

}  // namespace horo::ops
