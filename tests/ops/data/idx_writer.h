#pragma once

#include <unistd.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace horo::ops {

/// A temporary directory of the test, removed at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    auto pattern = (std::filesystem::temp_directory_path() / "horo_data_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// The bytes of an IDX file: magic number of bytes with dimensions.size() dimensions, header,
/// values.
inline std::string idx_bytes(const std::vector<std::uint32_t>& dimensions,
                             const std::vector<std::uint8_t>& values) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(dimensions.size())};
  for (const auto dimension : dimensions)
    for (int shift = 24; shift >= 0; shift -= 8)
      bytes.push_back(static_cast<char>(dimension >> shift & 0xff));
  bytes.append(values.begin(), values.end());
  return bytes;
}

inline void write_plain(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
}

inline void write_gzip(const std::filesystem::path& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

}  // namespace horo::ops
