#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "ops/data/datasets/mnist_dataset.h"
#include "tests/ops/data/idx_writer.h"
#include "tests/ops/data/message_of.h"

namespace horo::ops {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class IdxFile : public testing::Test {
 protected:
  std::string reading_fails(const std::string& bytes, std::size_t dimensions) {
    write_plain(file_, bytes);
    return message_of([&] { read_idx(file_, dimensions); });
  }

  TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_ / "some-file";
};

std::vector<std::uint8_t> counting(std::size_t count) {
  std::vector<std::uint8_t> values(count);
  std::iota(values.begin(), values.end(), std::uint8_t{1});
  return values;
}

TEST_F(IdxFile, ReadsPlainAndCompressedFiles) {
  const auto bytes = idx_bytes({2, 3, 4}, counting(24));
  write_plain(file_, bytes);
  write_gzip(directory_ / "compressed", bytes);
  for (const auto& path : {file_, directory_ / "compressed"}) {
    const IdxArray array = read_idx(path, 3);
    EXPECT_EQ(array.shape, (Shape{2, 3, 4}));
    EXPECT_EQ(array.values, counting(24));
  }
}

TEST_F(IdxFile, ReadsALargeDimensionAsBigEndian) {
  const std::vector<std::uint8_t> values(70000, 7);
  write_gzip(file_, idx_bytes({70000}, values));
  EXPECT_EQ(read_idx(file_, 1).values, values);
}

TEST_F(IdxFile, RefusesAWrongMagicNumber) {
  auto bytes = idx_bytes({3}, counting(3));
  EXPECT_THAT(reading_fails(bytes, 3), AllOf(HasSubstr(file_.string()), HasSubstr("0x00000801"),
                                             HasSubstr("0x00000803"), Not(HasSubstr("\n"))));
  bytes[2] = '\x0d';  // floats
  EXPECT_THAT(reading_fails(bytes, 1), HasSubstr("0x00000d01"));
  EXPECT_THAT(reading_fails("<html>not found</html>", 1), HasSubstr("is not an IDX file"));
}

TEST_F(IdxFile, RefusesFilesOfWrongLength) {
  const auto bytes = idx_bytes({2, 3, 4}, counting(24));
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THAT(
        reading_fails(bytes.substr(0, length), 3),
        AllOf(HasSubstr(file_.string()), HasSubstr("fetch it again"), Not(HasSubstr("\n"))));
  EXPECT_THAT(reading_fails(bytes + "x", 3), HasSubstr("[2, 3, 4]"));
}

TEST_F(IdxFile, RefusesAHeaderLargerThanMemory) {
  constexpr std::uint32_t kHuge = 0xffffffff;
  EXPECT_THAT(reading_fails(idx_bytes({kHuge, kHuge, kHuge}, counting(1)), 3),
              HasSubstr("but 1 bytes follow"));
  // 2^16 * 2^24 * 2^24 values are 0 modulo 2^64.
  EXPECT_THAT(reading_fails(idx_bytes({1u << 16, 1u << 24, 1u << 24}, {}), 3),
              HasSubstr("but 0 bytes follow"));
}

TEST_F(IdxFile, RefusesTruncatedAndDamagedGzip) {
  std::vector<std::uint8_t> values(5000);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::uint8_t>(i * i * 31 >> 3);
  write_gzip(file_, idx_bytes({5000}, values));
  const auto size = std::filesystem::file_size(file_);
  std::filesystem::resize_file(file_, size / 2);
  EXPECT_THAT(message_of([&] { read_idx(file_, 1); }),
              AllOf(HasSubstr(file_.string()), HasSubstr("ends early")));

  write_gzip(file_, idx_bytes({5000}, values));
  std::fstream(file_, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(200)
      .write("~~~~~~~~", 8);
  EXPECT_THAT(message_of([&] { read_idx(file_, 1); }),
              AllOf(HasSubstr(file_.string()), HasSubstr("damaged")));
}

TEST_F(IdxFile, RefusesDirectoriesAndMissingFiles) {
  EXPECT_THAT(message_of([&] { read_idx(directory_ / "absent", 1); }),
              AllOf(HasSubstr("absent"), HasSubstr("No such file")));
  EXPECT_THAT(message_of([&] { read_idx(directory_.path(), 1); }), HasSubstr("is a directory"));
}

}  // namespace
}  // namespace horo::ops
