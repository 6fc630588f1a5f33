#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "horo/base/error.h"
#include "horo/base/system/durable_file.h"
#include "ops/checkpoint/checkpoint_part.h"

namespace horo::ops {

/// A part whose values depend on the step, the part and the index.
inline Safetensors sealed_part(const CheckpointName& name, int part, std::size_t values) {
  Safetensors file;
  file.reset(part_metadata(name, part), {{"values", DataType::kUInt8, {values}}});
  for (std::size_t i = 0; std::byte & value : file.values(0))
    value = static_cast<std::byte>(name.step + 5 * static_cast<std::uint64_t>(part) + 3 * ++i);
  seal(file);
  return file;
}

inline void write_part(const CheckpointDirectory& directory, const CheckpointName& name, int part,
                       std::size_t values = 100) {
  write_durably(directory.file_of(name, part), sealed_part(name, part, values).bytes());
}

inline void write_bytes(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

inline void expect_is_part(const CheckpointDirectory& directory, const CheckpointName& name,
                           int part) {
  const Safetensors read = read_part(directory, name, part);
  const Safetensors expected = sealed_part(name, part, read.values(0).size());
  EXPECT_TRUE(std::ranges::equal(read.bytes(), expected.bytes()));
}

/// The text of the Error that `work` throws.
template <typename Work>
std::string error_text(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

inline std::vector<std::string> names_in(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace horo::ops
