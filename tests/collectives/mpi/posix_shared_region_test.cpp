#include "collectives/mpi/posix_shared_region.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/statvfs.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "collectives/mpi/mpi_transport.h"
#include "horo/base/error.h"

namespace horo::collectives {
namespace {

using testing::HasSubstr;

TEST(PosixSharedRegion, IsOneMemoryForTheNodeAndHasNoNameAfterwards) {
  MpiTransport transport(MPI_COMM_WORLD, {}, 2);
  const Topology& topology = transport.topology();
  const auto region = transport.make_node_region(1 << 20);
  ASSERT_EQ(region->bytes().size(), std::size_t{1} << 20);
  auto& counter = *reinterpret_cast<std::atomic<int>*>(region->bytes().data() + 4096);
  EXPECT_GE(counter.load(), 0);
  counter += topology.local_rank + 1;
  Waiter waiter(transport.wait_policy());
  const int all = topology.local_size * (topology.local_size + 1) / 2;
  while (counter.load() < all) waiter.pause("for the ranks of the node");
  EXPECT_EQ(counter.load(), all);
  const std::string own_prefix = "horo." + std::to_string(getpid()) + ".";
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    EXPECT_FALSE(entry.path().filename().string().starts_with(own_prefix)) << entry.path();
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(PosixSharedRegion, AllRanksLearnThatThereIsTooLittleMemory) {
  MpiTransport transport(MPI_COMM_WORLD, {}, 0);
  struct statvfs space {};
  ASSERT_EQ(statvfs("/dev/shm", &space), 0);
  const std::size_t too_much =
      (static_cast<std::size_t>(space.f_blocks) + 1) * space.f_frsize + (1u << 30);
  try {
    transport.make_node_region(too_much);
    FAIL() << "more than all of /dev/shm was granted";
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/dev/shm"));
    EXPECT_THAT(error.what(), HasSubstr("--shm-size"));
  }
  EXPECT_EQ(transport.make_node_region(100)->bytes().size(), 100u)
      << "the transport must stay usable";
}

}  // namespace
}  // namespace horo::collectives
