#include "ops/checkpoint/checkpoint_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/flight_recorder/temporary_directory.h"
#include "tests/ops/checkpoint/checkpoint_files.h"

namespace horo::ops {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr CheckpointName kName{12, 2};

class CheckpointPart : public ::testing::Test {
 protected:
  std::string path() const { return directory_.file_of(kName, 1).string(); }
  std::string error_with(std::span<const std::byte> file) const {
    write_bytes(path(), file);
    return error_text([&] { (void)read_part(directory_, kName, 1); });
  }

  const observe::TemporaryDirectory temporary_;
  const CheckpointDirectory directory_{temporary_.path()};
};

TEST_F(CheckpointPart, RoundTrips) {
  for (const std::size_t values : {0, 1, 77, 4096}) {
    write_part(directory_, kName, 1, values);
    const Safetensors read = read_part(directory_, kName, 1);
    EXPECT_EQ(read.values(0).size(), values);
    EXPECT_EQ(read.metadata("step"), "12");
    expect_is_part(directory_, kName, 1);
  }
}

TEST_F(CheckpointPart, DetectsEveryFlippedBitAndEveryTruncation) {
  const Safetensors good = sealed_part(kName, 1, 40);
  std::vector<std::byte> bytes(good.bytes().begin(), good.bytes().end());
  EXPECT_EQ(error_with(bytes), "no error");
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto bit = static_cast<std::byte>(1u << i % 8);
    bytes[i] ^= bit;
    EXPECT_THAT(error_with(bytes), StartsWith(path() + ": ")) << "byte " << i;
    bytes[i] ^= bit;
    EXPECT_THAT(error_with(std::span(bytes).first(i)), StartsWith(path() + ": ")) << i << " bytes";
  }
}

TEST_F(CheckpointPart, NamesTheReasonInOneLine) {
  const auto with = [&](const std::string& key, const std::string& text) {
    Safetensors file;
    Safetensors::Metadata metadata = part_metadata(kName, 1);
    for (auto& [name, value] : metadata)
      if (name == key) value = text;
    file.reset(metadata, {{"values", DataType::kUInt8, {3}}});
    seal(file);
    return error_with(file.bytes());
  };
  EXPECT_EQ(with("", ""), "no error");
  EXPECT_THAT(with("version", "7"), HasSubstr("a checkpoint of version 7, but this horo reads"));
  EXPECT_THAT(with("format", "pt"), HasSubstr("not a checkpoint of horo"));
  EXPECT_THAT(with("step", "13"), HasSubstr("the file was renamed: its step is 13"));
  EXPECT_THAT(with("part", "0"), HasSubstr("the file was renamed: its part is 0"));
  Safetensors foreign;
  foreign.reset({{"format", "pt"}}, {{"w", DataType::kFloat32, {2}}});
  EXPECT_THAT(error_with(foreign.bytes()),
              AllOf(StartsWith(path()), HasSubstr("not a checkpoint of horo")));
  std::filesystem::remove(path());
  EXPECT_EQ(error_text([&] { (void)read_part(directory_, kName, 1); }),
            "cannot read " + path() + ": No such file or directory");
}

}  // namespace
}  // namespace horo::ops
