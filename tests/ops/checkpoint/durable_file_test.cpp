#include "horo/base/system/durable_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "tests/flight_recorder/temporary_directory.h"
#include "tests/ops/checkpoint/checkpoint_files.h"

namespace horo::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kValues = 300'000;

TEST(DurableFile, CreatesAndReplaces) {
  const observe::TemporaryDirectory directory;
  for (const std::size_t size : {0, 1, 100'001, 7}) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + size);
    write_durably(directory.file("f"), bytes);
    EXPECT_EQ(read_whole_file(directory.file("f")), bytes);
    EXPECT_THAT(names_in(directory.path()), ElementsAre("f"));
  }
}

TEST(DurableFile, NamesWhatFails) {
  const observe::TemporaryDirectory directory;
  EXPECT_EQ(error_text([&] { write_durably(directory.file("none/f"), {}); }),
            "cannot create " + directory.file("none/f") + ".tmp: No such file or directory");
  EXPECT_THAT(error_text([&] { (void)read_whole_file(directory.path()); }),
              HasSubstr("cannot read " + directory.path().string() + ": Is a directory"));
}

/// Runs `work` in a child process, which must not return from it. Returns the signal that ended it.
template <typename Work>
int ending_signal(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

// The kernel kills a process that writes beyond its limit, in the middle of the write.
TEST(Checkpoint, WriteThatIsCutOffKeepsTheFormerOne) {
  const observe::TemporaryDirectory temporary;
  const CheckpointDirectory directory(temporary.path());
  write_part(directory, {1, 1}, 0, kValues);
  const std::size_t size = sealed_part({2, 1}, 0, kValues).bytes().size();
  for (const std::size_t limit : {std::size_t{1}, std::size_t{100}, size / 2, size - 1}) {
    EXPECT_EQ(ending_signal([&] {
                const rlimit most{limit, limit}, no_core{};
                setrlimit(RLIMIT_CORE, &no_core);
                setrlimit(RLIMIT_FSIZE, &most);
                write_part(directory, {2, 1}, 0, kValues);
              }),
              SIGXFSZ);
    EXPECT_THAT(directory.complete(), ElementsAre(CheckpointName{1, 1}));
    EXPECT_EQ(std::filesystem::file_size(directory.file_of({2, 1}, 0).string() + ".tmp"), limit);
    expect_is_part(directory, {1, 1}, 0);
  }
  directory.remove_leftovers(1);
  EXPECT_EQ(names_in(temporary.path()).size(), 1u);
}

// Checkpoints that had been announced as written before the kill must not be lost.
TEST(Checkpoint, KillAtAnyMomentLeavesTheNewestOne) {
  const observe::TemporaryDirectory temporary;
  const CheckpointDirectory directory(temporary.path());
  std::srand(7);
  std::uint64_t first = 1;
  for (int round = 0; round < 8; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      for (std::uint64_t step = first;; ++step) {
        for (const int part : {0, 1}) write_part(directory, {step, 2}, part, kValues);
        directory.remove_old(2);
        if (write(ends[1], &step, sizeof step) != sizeof step) _exit(1);
      }
    }
    close(ends[1]);
    std::uint64_t written = 0;
    ASSERT_EQ(read(ends[0], &written, sizeof written), static_cast<ssize_t>(sizeof written));
    usleep(static_cast<useconds_t>(std::rand() % 10'000));  // the moment
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    while (read(ends[0], &written, sizeof written) > 0) {
    }
    close(ends[0]);
    const auto complete = directory.complete();
    ASSERT_FALSE(complete.empty());
    EXPECT_GE(complete[0].step, written);
    EXPECT_LE(complete[0].step, written + 1);
    for (const int part : {0, 1}) expect_is_part(directory, complete[0], part);
    directory.remove_leftovers(complete[0].step);
    EXPECT_LE(names_in(temporary.path()).size(), 6u);
    first = complete[0].step + 1;
  }
}

}  // namespace
}  // namespace horo::ops
