#include "collectives/mpi/shared_memory_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <string>

#include "horo/base/error.h"
#include "tests/support/private_shm.h"

namespace horo::collectives {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string path_of(const SharedMemoryFile& file) { return "/dev/shm" + file.name(); }

TEST(SharedMemoryFile, IsSharedZeroedAndPrivateToTheUser) {
  SharedMemoryFile first = SharedMemoryFile::create(10000);
  struct stat status {};
  ASSERT_EQ(stat(path_of(first).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  const SharedMemoryFile second = SharedMemoryFile::open(first.name(), 10000);
  ASSERT_EQ(first.bytes().size(), 10000u);
  EXPECT_NE(first.bytes().data(), second.bytes().data());
  EXPECT_EQ(second.bytes()[9999], std::byte{0});
  first.bytes()[9999] = std::byte{7};
  EXPECT_EQ(second.bytes()[9999], std::byte{7});
}

TEST(SharedMemoryFile, LeavesNoNameBehind) {
  std::string path;
  {
    SharedMemoryFile file = SharedMemoryFile::create(100);
    path = path_of(file);
    EXPECT_TRUE(std::filesystem::exists(path));
    file.unlink();
    EXPECT_FALSE(std::filesystem::exists(path));
    file.bytes()[99] = std::byte{1};  // the memory stays
  }
  {
    const SharedMemoryFile file = SharedMemoryFile::create(100);
    path = path_of(file);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(SharedMemoryFile, SaysWhatIsMissingWhenItDoesNotFit) {
  struct statvfs space {};
  ASSERT_EQ(statvfs("/dev/shm", &space), 0);
  const std::size_t too_much =
      (static_cast<std::size_t>(space.f_blocks) + 1) * space.f_frsize + (1u << 30);
  try {
    SharedMemoryFile::create(too_much);
    FAIL() << "more than all of /dev/shm was granted";
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("/dev/shm"), HasSubstr("needs"),
                                    HasSubstr("are free"), HasSubstr("--shm-size")));
  }
}

TEST(SharedMemoryFile, SaysSoWhenAnotherProgramWasFasterToTakeTheMemory) {
  const PrivateShm shm(1 << 20);
  if (!shm.is_there()) GTEST_SKIP() << "only root can have a /dev/shm of its own";
  SharedMemoryFile first = SharedMemoryFile::create(768 << 10);
  SharedMemoryFile second = SharedMemoryFile::create(768 << 10);  // nothing is taken yet
  first.claim(0, 1);
  second.claim(0, 4);
  try {
    second.claim(3, 4);
    FAIL() << "1.5 of 1 MiB were granted";
  } catch (const SharedMemoryError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("needs 192KiB"), HasSubstr("64KiB are free"),
                                    HasSubstr("--shm-size")));
  }
}

TEST(SharedMemoryFile, NamesTheObjectThatIsNotThere) {
  try {
    SharedMemoryFile::open("/horo.none", 10);
    FAIL();
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/horo.none"));
  }
}

}  // namespace
}  // namespace horo::collectives
