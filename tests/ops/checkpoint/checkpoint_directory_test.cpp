#include "ops/checkpoint/checkpoint_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/flight_recorder/temporary_directory.h"
#include "tests/ops/checkpoint/checkpoint_files.h"

namespace horo::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CheckpointDirectory, FileNamesRoundTrip) {
  EXPECT_EQ(part_file_name({1200, 2}, 0), "step-000000001200.part-0-of-2.safetensors");
  for (const std::uint64_t step : {0ul, 7ul, 999999999999ul, 1000000000000ul, ~0ul})
    for (const int part : {0, 2, 11}) {
      const auto parsed = parse_part_file_name(part_file_name({step, 12}, part));
      ASSERT_TRUE(parsed);
      EXPECT_EQ(parsed->first, (CheckpointName{step, 12}));
      EXPECT_EQ(parsed->second, part);
    }
  for (const char* name :
       {"", "step-", "step-000000000001.part-0-of-1.safetensors.tmp", "model.safetensors",
        "step-1.part-0-of-1.safetensors", "step-000000000001.part-1-of-1.safetensors",
        "step-000000000001.part--1-of-1.safetensors", "step-000000000001.part-0-of-1.json",
        "step-00000000000x.part-0-of-1.safetensors",
        "step-99999999999999999999.part-0-of-1.safetensors",
        "step-000000000001.part-0-of-1.safetensors.damaged"})
    EXPECT_FALSE(parse_part_file_name(name)) << name;
}

TEST(CheckpointDirectory, ListsCompleteCheckpointsNewestFirst) {
  const observe::TemporaryDirectory temporary;
  const CheckpointDirectory directory(temporary.path());
  EXPECT_THAT(directory.complete(), IsEmpty());
  EXPECT_THAT(CheckpointDirectory(temporary.path() / "none").complete(), IsEmpty());
  write_part(directory, {5, 1}, 0);
  for (const int part : {0, 1, 2}) write_part(directory, {20, 3}, part);
  for (const int part : {0, 2}) write_part(directory, {30, 3}, part);
  write_bytes(temporary.file("notes.txt"), {});
  write_bytes(temporary.file(part_file_name({40, 1}, 0) + ".tmp"), {});
  EXPECT_THAT(directory.complete(), ElementsAre(CheckpointName{20, 3}, CheckpointName{5, 1}));
  write_bytes(temporary.file("file"), {});
  EXPECT_THAT(error_text([&] { (void)CheckpointDirectory(temporary.file("file")).complete(); }),
              HasSubstr("cannot read " + temporary.file("file")));
}

TEST(CheckpointDirectory, RemovesWhatIsOlderThanTheNewestComplete) {
  const observe::TemporaryDirectory temporary;
  const CheckpointDirectory directory(temporary.path());
  for (const std::uint64_t step : {10, 20, 30, 50})
    for (const int part : {0, 1}) write_part(directory, {step, 2}, part);
  for (const std::uint64_t step : {25, 40, 60}) write_part(directory, {step, 2}, 1);  // incomplete
  write_bytes(temporary.file("notes.txt"), {});
  directory.remove_old(2);
  EXPECT_THAT(names_in(temporary.path()),
              ElementsAre("notes.txt", part_file_name({30, 2}, 0), part_file_name({30, 2}, 1),
                          part_file_name({40, 2}, 1), part_file_name({50, 2}, 0),
                          part_file_name({50, 2}, 1), part_file_name({60, 2}, 1)));
}

TEST(CheckpointDirectory, RemovesLeftoversOfAStoppedRun) {
  const observe::TemporaryDirectory temporary;
  const CheckpointDirectory directory(temporary.path());
  write_part(directory, {10, 1}, 0);
  write_part(directory, {20, 2}, 1);
  write_part(directory, {30, 1}, 0);
  write_bytes(temporary.file(part_file_name({40, 1}, 0) + ".tmp"), {});
  write_bytes(temporary.file("other.tmp"), {});
  directory.remove_leftovers(10);
  EXPECT_THAT(names_in(temporary.path()),
              ElementsAre("other.tmp", part_file_name({10, 1}, 0), part_file_name({30, 1}, 0)));
}

TEST(CheckpointDirectory, SetsDamagedCheckpointsAside) {
  const observe::TemporaryDirectory temporary;
  const CheckpointDirectory directory(temporary.path());
  write_part(directory, {10, 1}, 0);
  for (const int part : {0, 1}) write_part(directory, {20, 2}, part);
  directory.set_aside({20, 2});
  EXPECT_THAT(directory.complete(), ElementsAre(CheckpointName{10, 1}));
  EXPECT_EQ(names_in(temporary.path()).size(), 3u);
}

}  // namespace
}  // namespace horo::ops
