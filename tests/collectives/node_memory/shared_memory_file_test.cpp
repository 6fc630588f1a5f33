#include "collectives/node_memory/shared_memory_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectives/node_memory/free_memory.h"
#include "horo/base/error.h"

namespace horo::collectives {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(SharedMemoryFile, IsSharedZeroedAndPrivateToTheUser) {
  SharedMemoryFile first = SharedMemoryFile::create(10000);
  struct stat status {};
  ASSERT_EQ(fstat(first.descriptor(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(status.st_nlink, 0u) << "it has no name";
  const SharedMemoryFile second =
      SharedMemoryFile::adopt(FileDescriptor(dup(first.descriptor())), 10000);
  ASSERT_EQ(first.bytes().size(), 10000u);
  EXPECT_NE(first.bytes().data(), second.bytes().data());
  EXPECT_EQ(second.bytes()[9999], std::byte{0});
  first.bytes()[9999] = std::byte{7};
  EXPECT_EQ(second.bytes()[9999], std::byte{7});
}

TEST(SharedMemoryFile, StaysMappedWithoutItsDescriptor) {
  SharedMemoryFile file = SharedMemoryFile::create(100);
  file.claim(0, 1);
  file.close();
  EXPECT_EQ(file.descriptor(), -1);
  file.bytes()[99] = std::byte{1};
  const SharedMemoryFile moved = std::move(file);
  EXPECT_EQ(moved.bytes()[99], std::byte{1});
}

TEST(SharedMemoryFile, ClaimsPagesOfEachPart) {
  constexpr std::size_t kBytes = 40960;
  SharedMemoryFile file = SharedMemoryFile::create(kBytes);
  struct stat status {};
  for (int part = 0; part < 3; ++part) file.claim(part, 3);
  ASSERT_EQ(fstat(file.descriptor(), &status), 0);
  EXPECT_EQ(static_cast<std::size_t>(status.st_blocks) * 512, kBytes);
}

TEST(SharedMemoryFile, RejectsClaimAboveFreeMemory) {
  SharedMemoryFile file = SharedMemoryFile::create(std::size_t{1} << 45);
  try {
    file.claim(1, 2);
    FAIL() << "16 TiB were granted";
  } catch (const SharedMemoryError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("cannot allocate 16384 GiB"),
                                    HasSubstr("available (" + find_free_memory().limit + ")")));
  }
}

TEST(SharedMemoryFile, RejectsDescriptorOfOtherSize) {
  const SharedMemoryFile file = SharedMemoryFile::create(100);
  EXPECT_THROW(SharedMemoryFile::adopt(FileDescriptor(dup(file.descriptor())), 101),
               SharedMemoryError);
}

}  // namespace
}  // namespace horo::collectives
