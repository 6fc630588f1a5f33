#include "ops/data/idx_file.h"

#include <fmt/core.h>

#include "horo/base/error.h"
#include "ops/data/file_bytes.h"

namespace horo::ops {

namespace {

constexpr std::uint8_t kUnsignedBytes = 0x08;

// Numbers of the header are big-endian.
std::uint32_t read_number(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path, std::size_t dimension_count) {
  IdxArray array{{}, read_file_bytes(path)};
  auto& bytes = array.values;
  const std::size_t header = 4 + 4 * dimension_count;
  const auto require = [&](bool holds, const std::string& reason) {
    HORO_CHECK(holds, fmt::format("{}: {}", path.string(), reason));
  };
  require(
      bytes.size() >= 4,
      fmt::format("has only {} bytes, an IDX file begins with 4 bytes of magic number; fetch it "
                  "again",
                  bytes.size()));
  const std::uint32_t expected =
      std::uint32_t{kUnsignedBytes} << 8 | static_cast<std::uint32_t>(dimension_count);
  require(read_number(bytes.data()) == expected,
          fmt::format("is not an IDX file of bytes with {} dimension(s): magic number {:#010x}, "
                      "expected {:#010x}; check that the file is the right one",
                      dimension_count, read_number(bytes.data()), expected));
  require(bytes.size() >= header,
          fmt::format("has only {} bytes, its header alone has {}; fetch it again", bytes.size(),
                      header));
  std::vector<std::size_t> dimensions;
  std::size_t promised = 1;
  for (std::size_t axis = 0; axis < dimension_count; ++axis) {
    dimensions.push_back(read_number(bytes.data() + 4 + 4 * axis));
    if (promised <= bytes.size()) promised *= dimensions.back();  // else: too many already
  }
  array.shape = Shape(std::move(dimensions));
  require(header + promised == bytes.size(),
          fmt::format("its header promises {} of one byte, but {} bytes follow it; fetch it again",
                      array.shape.to_string(), bytes.size() - header));
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
  return array;
}

}  // namespace horo::ops
