#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <thread>

#include "ops/data/records/labelled_files.h"
#include "ops/data/records/pack_folder.h"
#include "ops/data/records/record_reader.h"
#include "ops/data/records/record_writer.h"
#include "tests/ops/data/idx_writer.h"
#include "tests/ops/data/message_of.h"

namespace horo::ops {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

/// Record i has i % 50 bytes, which depend on i.
Bytes record_bytes(std::size_t i) {
  Bytes bytes(i % 50);
  for (std::size_t k = 0; k < bytes.size(); ++k)
    bytes[k] = static_cast<std::byte>((7 * i + 13 * k) & 0xff);
  return bytes;
}

constexpr std::size_t kRecords = 300;

/// Writes kRecords records of 3 classes into files of at most 1000 bytes.
void write_records(const std::filesystem::path& directory) {
  RecordWriter writer(directory, {"ant", "bee", "cat"}, 1000);
  for (std::size_t i = 0; i < kRecords; ++i)
    writer.add(fmt::format("name {}", i), static_cast<std::int32_t>(i % 3), record_bytes(i));
  writer.finish();
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void flip_byte(const std::filesystem::path& path, std::size_t at) {
  std::string bytes = content_of(path);
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 0x40);
  write_plain(path, bytes);
}

void truncate_file(const std::filesystem::path& path, std::size_t bytes) {
  write_plain(path, content_of(path).substr(0, bytes));
}

std::string error_of(const RecordReader& reader, std::size_t index) {
  Bytes bytes;
  try {
    reader.read(index, bytes);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Records, ReadBackInAnyOrder) {
  const TemporaryDirectory directory;
  write_records(directory / "pack");
  EXPECT_GT(std::distance(std::filesystem::directory_iterator(directory / "pack"), {}), 5);
  const RecordReader reader(directory / "pack");
  ASSERT_EQ(reader.size(), kRecords);
  EXPECT_THAT(reader.classes(), testing::ElementsAre("ant", "bee", "cat"));
  Bytes bytes;
  for (std::size_t k = 0; k < 2 * kRecords; ++k) {
    const std::size_t i = k < kRecords ? k : k * 101 % kRecords;
    reader.read(i, bytes);
    EXPECT_EQ(bytes, record_bytes(i)) << i;
    EXPECT_EQ(reader.name(i), fmt::format("name {}", i));
    EXPECT_EQ(reader.label(i), static_cast<std::int32_t>(i % 3));
  }
}

TEST(Records, SeveralThreadsReadAtOnce) {
  const TemporaryDirectory directory;
  write_records(directory / "pack");
  const RecordReader reader(directory / "pack");
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < 3; ++t)
    threads.emplace_back([&reader, t] {
      Bytes bytes;
      for (std::size_t i = t; i < kRecords; ++i) {
        reader.read(i, bytes);
        EXPECT_EQ(bytes, record_bytes(i));
      }
    });
}

TEST(Records, DamagedRecordIsNamedAndOthersAreRead) {
  const TemporaryDirectory directory;
  write_records(directory / "pack");
  flip_byte(directory / "pack/00000.horodata", 3 * 2 / 2 + 2);  // record 3 begins at 0 + 1 + 2
  const RecordReader reader(directory / "pack");
  EXPECT_THAT(error_of(reader, 3), AllOf(HasSubstr("00000.horodata: record 3 (name 3)"),
                                         HasSubstr("has the checksum"), HasSubstr("damaged")));
  for (std::size_t i = 0; i < kRecords; ++i)
    if (i != 3) {
      EXPECT_EQ(error_of(reader, i), "no error") << i;
    }
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(check_records(directory / "pack").damaged, 1u);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("record 3 (name 3)"));
}

TEST(Records, TruncatedDataFileIsNamed) {
  const TemporaryDirectory directory;
  write_records(directory / "pack");
  truncate_file(directory / "pack/00000.horodata", 4);  // in record 3
  const RecordReader reader(directory / "pack");
  EXPECT_EQ(error_of(reader, 2), "no error");
  EXPECT_THAT(error_of(reader, 3),
              AllOf(HasSubstr("record 3 (name 3)"),
                    HasSubstr("the file ends at byte 4, the record at byte 6")));
  EXPECT_THAT(error_of(reader, 4), HasSubstr("the file ends at byte 4, the record at byte 10"));
}

// Every byte of the index is covered by a check.
TEST(Records, DamagedIndexIsRefused) {
  const TemporaryDirectory directory;
  write_records(directory / "pack");
  const auto index = directory / "pack/index.horopack";
  const std::string whole = content_of(index);
  for (std::size_t at = 0; at < whole.size(); at += at < 64 ? 1 : 97) {
    flip_byte(index, at);
    EXPECT_THAT(message_of([&] { RecordReader reader(directory / "pack"); }),
                HasSubstr("index.horopack"))
        << at;
    write_plain(index, whole);
  }
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, std::size_t{60}, whole.size() - 1}) {
    truncate_file(index, size);
    EXPECT_THAT(message_of([&] { RecordReader reader(directory / "pack"); }),
                AllOf(HasSubstr(fmt::format("has {}", size == 0 || size == 7 ? "only " : "")),
                      HasSubstr("pack the data set again")));
    write_plain(index, whole);
  }
  EXPECT_EQ(RecordReader(directory / "pack").size(), kRecords);
}

TEST(Records, ForeignOrIncompleteDirectoriesAreRefused) {
  const TemporaryDirectory directory;
  write_records(directory / "pack");
  const auto index = directory / "pack/index.horopack";
  std::string other_version = content_of(index);
  other_version[8] = 9;
  write_plain(index, other_version);
  EXPECT_THAT(message_of([&] { RecordReader reader(directory / "pack"); }),
              HasSubstr("has version 9; this horo reads version 1"));
  write_plain(index, std::string(100, 'x'));
  EXPECT_THAT(message_of([&] { RecordReader reader(directory / "pack"); }),
              HasSubstr("is not an index of packed records"));
  std::filesystem::remove(index);
  EXPECT_THAT(message_of([&] { RecordReader reader(directory / "pack"); }),
              HasSubstr("packing was interrupted"));

  write_records(directory / "other");
  std::filesystem::remove(directory / "other/00002.horodata");
  EXPECT_THAT(message_of([&] { RecordReader reader(directory / "other"); }),
              HasSubstr("00002.horodata: cannot be opened"));
  EXPECT_THAT(message_of([&] { write_records(directory / "other"); }), HasSubstr("is not empty"));
}

TEST(Records, AreNotReadableBeforeTheyAreFinished) {
  const TemporaryDirectory directory;
  {
    RecordWriter writer(directory / "pack", {"a"});
    writer.add("one", 0, record_bytes(20));
    EXPECT_THAT(message_of([&] { writer.add("two", 1, {}); }), HasSubstr("label 1 of 1 classes"));
  }
  EXPECT_THAT(message_of([&] { RecordReader reader(directory / "pack"); }),
              HasSubstr("packing was interrupted"));
}

TEST(LabelledFiles, AreSortedByClassAndName) {
  const TemporaryDirectory directory;
  for (const char* name : {"dog/b.png", "dog/a.png", "cat/z/deep.png", "cat/y.png", "cat/.hidden",
                           ".git/config", "readme.txt"}) {
    std::filesystem::create_directories((directory / name).parent_path());
    write_plain(directory / name, name);
  }
  const LabelledFiles files = list_labelled_files(directory.path());
  EXPECT_THAT(files.classes, testing::ElementsAre("cat", "dog"));
  std::vector<std::string> names;
  for (const auto& file : files.files) names.push_back(fmt::format("{} {}", file.name, file.label));
  EXPECT_THAT(
      names, testing::ElementsAre("cat/y.png 0", "cat/z/deep.png 0", "dog/a.png 1", "dog/b.png 1"));
  EXPECT_THAT(message_of([&] { list_labelled_files(directory / "readme.txt"); }),
              HasSubstr("is not a directory"));
  EXPECT_THAT(message_of([&] { list_labelled_files(directory / "cat/z"); }),
              HasSubstr("has no files in sub-folders"));
}

TEST(PackFolder, KeepsFilesLabelsAndNames) {
  const TemporaryDirectory directory;
  for (std::size_t i = 0; i < 40; ++i) {
    const auto path = directory / fmt::format("source/class {}/{:02}.bin", i % 4, i);
    std::filesystem::create_directories(path.parent_path());
    const Bytes bytes = record_bytes(i);
    write_plain(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  const PackReport report = pack_folder(directory / "source", directory / "pack", 100);
  EXPECT_EQ(report.records, 40u);
  EXPECT_EQ(report.classes, 4u);
  EXPECT_EQ(report.bytes, 40u * 39 / 2);
  const RecordReader reader(directory / "pack");
  const LabelledFiles files = list_labelled_files(directory / "source");
  ASSERT_EQ(reader.size(), files.files.size());
  Bytes bytes;
  for (std::size_t i = 0; i < reader.size(); ++i) {
    EXPECT_EQ(reader.name(i), files.files[i].name);
    EXPECT_EQ(reader.label(i), files.files[i].label);
    reader.read(i, bytes);
    const std::string content = content_of(files.path_of(i));
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(content)), bytes));
  }
  EXPECT_EQ(check_records(directory / "pack").damaged, 0u);
}

}  // namespace
}  // namespace horo::ops
