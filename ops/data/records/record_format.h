#pragma once

#include <zlib.h>

#include <array>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "horo/base/error.h"

// The files of packed records. The data files are the bytes of the records, one after another. The
// index, which is written last, has in little-endian byte order:
//   IndexHeader
//   the size of each data file, 64 bits each
//   an IndexEntry for each record
//   the name of each class, with a zero byte after it
//   the name of each record, without separators

namespace horo::ops {

static_assert(std::endian::native == std::endian::little);

constexpr std::array<char, 8> kIndexMagic{'H', 'O', 'R', 'O', 'P', 'A', 'C', 'K'};
constexpr std::uint32_t kIndexVersion = 1;

struct IndexHeader {
  std::array<char, 8> magic = kIndexMagic;
  std::uint32_t version = kIndexVersion;
  std::uint32_t data_files = 0;
  std::uint64_t records = 0;
  std::uint64_t classes = 0;
  std::uint64_t class_bytes = 0;  // of all names
  std::uint64_t name_bytes = 0;
  std::uint32_t checksum = 0;         // of the rest of the index
  std::uint32_t header_checksum = 0;  // of the members above
};
static_assert(sizeof(IndexHeader) == 56);

struct IndexEntry {
  std::uint64_t offset = 0;    // in the data file
  std::uint64_t name_end = 0;  // in the names; the name begins at the end of the previous one
  std::uint32_t bytes = 0;
  std::uint32_t data_file = 0;
  std::uint32_t checksum = 0;
  std::int32_t label = 0;
};
static_assert(sizeof(IndexEntry) == 32);

inline std::filesystem::path index_path(const std::filesystem::path& directory) {
  return directory / "index.horopack";
}
inline std::filesystem::path data_path(const std::filesystem::path& directory,
                                       std::uint32_t number) {
  std::string digits = std::to_string(number);
  digits.insert(0, digits.size() < 5 ? 5 - digits.size() : 0, '0');
  return directory / (digits + ".horodata");
}

/// CRC-32, as in gzip and PNG. `previous`: the checksum of the bytes before.
inline std::uint32_t checksum_of(std::span<const std::byte> bytes, std::uint32_t previous = 0) {
  return static_cast<std::uint32_t>(
      crc32_z(previous, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

inline std::uint32_t checksum_of_header(const IndexHeader& header) {
  return checksum_of(
      std::as_bytes(std::span(&header, 1)).first(offsetof(IndexHeader, header_checksum)));
}

}  // namespace horo::ops
