#include "ops/checkpoint/checkpoint_part.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "horo/base/system/durable_file.h"

namespace horo::ops {
namespace {

constexpr const char* kFormat = "horo checkpoint";
constexpr std::string_view kNoChecksum = "00000000";
// The checksum is the first text of the header, so that its place is the same in every file.
constexpr std::string_view kBeforeChecksum = R"({"__metadata__":{"crc32":")";
constexpr std::size_t kChecksumAt = 8 + kBeforeChecksum.size();

std::uint32_t add_to(std::uint32_t sum, std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(sum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::string checksum_of(std::span<const std::byte> file) {
  std::uint32_t sum = add_to(0, file.first(kChecksumAt));
  sum = add_to(sum, std::as_bytes(std::span(kNoChecksum)));
  return fmt::format("{:08x}", add_to(sum, file.subspan(kChecksumAt + kNoChecksum.size())));
}

void check(const Safetensors& file, const CheckpointName& name, int part) {
  HORO_CHECK(file.metadata("format") == kFormat, "not a checkpoint of horo");
  HORO_CHECK(file.metadata("version") == kCheckpointVersion,
             fmt::format("a checkpoint of version {}, but this horo reads version {}; resume with "
                         "the horo that wrote it",
                         file.metadata("version"), kCheckpointVersion));
  const auto sum = file.metadata("crc32");
  HORO_CHECK(sum.size() == kNoChecksum.size() && sum == checksum_of(file.bytes()),
             fmt::format("damaged: its checksum is {}, not {}", checksum_of(file.bytes()), sum));
  for (const auto& [key, text] : part_metadata(name, part))
    HORO_CHECK(key == "crc32" || file.metadata(key) == text,
               fmt::format("the file was renamed: its {} is {}", key, file.metadata(key)));
}

}  // namespace

Safetensors::Metadata part_metadata(const CheckpointName& name, int part) {
  return {{"crc32", std::string(kNoChecksum)}, {"format", kFormat},
          {"version", kCheckpointVersion},     {"step", std::to_string(name.step)},
          {"part", std::to_string(part)},      {"parts", std::to_string(name.parts)}};
}

void seal(Safetensors& file) {
  const std::string sum = checksum_of(file.bytes());
  std::ranges::copy(std::as_bytes(std::span(sum)), file.bytes().begin() + kChecksumAt);
}

Safetensors read_part(const CheckpointDirectory& directory, const CheckpointName& name, int part) {
  const std::filesystem::path path = directory.file_of(name, part);
  std::vector<std::byte> bytes = read_whole_file(path);
  try {
    Safetensors file(std::move(bytes));
    check(file, name, part);
    return file;
  } catch (const InvalidArgument& error) {
    throw Error(fmt::format("{}: {}", path.string(), error.what()));
  }
}

}  // namespace horo::ops
