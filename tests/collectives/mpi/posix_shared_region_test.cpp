#include "collectives/mpi/posix_shared_region.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/statvfs.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>

#include "collectives/mpi/mpi_transport.h"
#include "horo/base/error.h"
#include "tests/support/private_shm.h"

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

TEST(PosixSharedRegion, AllRanksLearnThatOneRankCannotHaveIt) {
  MpiTransport transport(MPI_COMM_WORLD, {}, 0);
  const Topology& topology = transport.topology();
  if (topology.size == 1) GTEST_SKIP() << "needs another rank";
  std::optional<PrivateShm> elsewhere;
  if (topology.rank == topology.size - 1) elsewhere.emplace(1 << 20);
  int can_be_elsewhere = !elsewhere || elsewhere->is_there();
  MPI_Allreduce(MPI_IN_PLACE, &can_be_elsewhere, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (!can_be_elsewhere) GTEST_SKIP() << "only root can have a /dev/shm of its own";
  try {
    transport.make_node_region(1 << 16);
    FAIL() << "granted, though a rank sees another /dev/shm";
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.what(), elsewhere ? HasSubstr("do the node's ranks see the same /dev/shm?")
                                        : HasSubstr("rank " + std::to_string(topology.size - 1) +
                                                    " of the node could not"));
  }
  elsewhere.reset();
  EXPECT_EQ(transport.make_node_region(100)->bytes().size(), 100u)
      << "the transport must stay usable";
}

}  // namespace
}  // namespace horo::collectives
