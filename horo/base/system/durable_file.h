#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

namespace horo {

/// The end of the names of files that are being written. Such files are incomplete.
inline constexpr const char* kTemporarySuffix = ".tmp";

/// Creates or replaces a file. Whenever the process or the machine stops, `path` is either the
/// former file or has all of `bytes`; once this function has returned, it is the latter. Writes
/// PATH.tmp, and renames it after its bytes are on the disk (fsync). Blocks. Throws Error, with the
/// path and the reason, if a call fails; the former file then remains.
void write_durably(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// The bytes of a file. Throws Error, with the path and the reason, if it cannot be read.
std::vector<std::byte> read_whole_file(const std::filesystem::path& path);

}  // namespace horo
