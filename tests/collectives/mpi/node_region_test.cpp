#include "collectives/node_memory/node_region.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>

#include "collectives/mpi/mpi_transport.h"
#include "horo/base/error.h"
#include "tests/support/failing_allocation.h"
#include "tests/support/private_memory_limit.h"
#include "tests/support/private_network.h"

namespace horo::collectives {
namespace {

using testing::HasSubstr;

// Descriptors of this process that refer to unnamed memory.
int open_memory_files() {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code is_gone;
    found += std::filesystem::read_symlink(entry, is_gone).string().starts_with("/memfd:horo");
  }
  return found;
}

TEST(NodeRegion, SharesMemoryOnNode) {
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
  EXPECT_EQ(open_memory_files(), 0) << "the mapping is enough";
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(NodeRegion, AllRanksThrowIfMemoryIsTooSmall) {
  MpiTransport transport(MPI_COMM_WORLD, {}, 0);
  try {
    transport.make_node_region(std::size_t{1} << 45);
    FAIL() << "32 TiB were granted";
  } catch (const SharedMemoryError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot allocate 32768 GiB"));
  }
  EXPECT_EQ(transport.make_node_region(100)->bytes().size(), 100u)
      << "the transport must stay usable";
}

TEST(NodeRegion, AllRanksThrowIfOneAllocationFails) {
  MpiTransport transport(MPI_COMM_WORLD, {}, 0);
  if (transport.topology().rank == 0) failing_allocation_bytes = 1;
  EXPECT_THROW(transport.make_node_region(100), SharedMemoryError);
  EXPECT_EQ(transport.make_node_region(100)->bytes().size(), 100u)
      << "the transport must stay usable";
}

TEST(NodeRegion, OwnLimitAppliesToOwnPartOnly) {
  MpiTransport transport(MPI_COMM_WORLD, {}, 0);
  const Topology& topology = transport.topology();
  std::optional<PrivateMemoryLimit> limit;
  if (topology.rank == 0) limit.emplace(std::size_t{224} << 20);
  int can_be_limited = !limit || limit->is_there();
  MPI_Bcast(&can_be_limited, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (!can_be_limited) GTEST_SKIP() << "only root can have a memory limit of its own";
  const std::size_t part = std::size_t{128} << 20;
  const auto ranks = static_cast<std::size_t>(topology.size);
  EXPECT_EQ(transport.make_node_region(ranks * part)->bytes().size(), ranks * part);
  try {
    transport.make_node_region(ranks * 2 * part);
    FAIL() << "granted beyond the limit of rank 0";
  } catch (const SharedMemoryError& error) {
    EXPECT_THAT(error.what(), topology.rank == 0 ? HasSubstr("cannot allocate 256 MiB")
                                                 : HasSubstr("rank 0 of the node cannot set up"));
  }
}

TEST(NodeRegion, AllRanksThrowIfOneCannotMap) {
  MpiTransport transport(MPI_COMM_WORLD, {}, 0);
  const Topology& topology = transport.topology();
  if (topology.size == 1) GTEST_SKIP() << "needs another rank";
  std::optional<PrivateNetwork> elsewhere;
  if (topology.rank == topology.size - 1) elsewhere.emplace();
  int can_be_elsewhere = !elsewhere || elsewhere->is_there();
  MPI_Allreduce(MPI_IN_PLACE, &can_be_elsewhere, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (!can_be_elsewhere) GTEST_SKIP() << "only root can have a network of its own";
  try {
    transport.make_node_region(1 << 16);
    FAIL() << "granted, though a rank cannot receive it";
  } catch (const SharedMemoryError& error) {
    EXPECT_THAT(error.what(), topology.rank == 0 ? HasSubstr("one network namespace?")
                                                 : HasSubstr("rank 0 of the node cannot set up"));
  }
  EXPECT_EQ(open_memory_files(), 0);
  elsewhere.reset();
  EXPECT_EQ(transport.make_node_region(100)->bytes().size(), 100u)
      << "the transport must stay usable";
}

}  // namespace
}  // namespace horo::collectives
