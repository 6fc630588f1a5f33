#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace horo::ops {

/// Returns the content of a file, decompressed if it is in gzip format, whatever its name. Throws
/// InvalidArgument, one line with the file name, if it cannot be opened or read, or if its
/// compressed data is damaged or truncated.
std::vector<std::uint8_t> read_file_bytes(const std::filesystem::path& path);

}  // namespace horo::ops
