#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace horo::ops {

/// Replaces `bytes` by the content of a file. Throws Error, one line with the file, if it cannot be
/// read.
void read_file(const std::filesystem::path& path, std::vector<std::byte>& bytes);

}  // namespace horo::ops
