#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "collectives/selection/link_cost.h"
#include "horo/base/error.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives {
namespace {

std::vector<LinkCost> measure(int ranks, std::size_t ranks_per_node) {
  std::vector<LinkCost> links(static_cast<std::size_t>(ranks));
  InProcessJob::Options options;
  options.ranks_per_node = ranks_per_node;
  contract::run_thread_ranks(ranks, options, [&](Transport& transport, int rank) {
    const auto peers = transport.make_point_to_point();
    links[static_cast<std::size_t>(rank)] = measure_link(*peers, transport.topology());
  });
  return links;
}

TEST(LinkProbe, OnlyPairedNodesMeasure) {
  // The nodes have ranks 0 and 1, 2 and 3, and 4. Rank 0 measures with rank 2; node 2 has no
  // partner.
  const auto links = measure(5, 2);
  EXPECT_GT(links[0].alpha, 0);
  EXPECT_GE(links[0].beta, 0);
  EXPECT_GT(links[0].gamma, 0);
  for (std::size_t rank = 1; rank < links.size(); ++rank)
    EXPECT_EQ(links[rank], LinkCost{}) << "rank " << rank;
}

TEST(LinkProbe, AllPairsMeasure) {
  const auto links = measure(8, 2);
  EXPECT_GT(links[0].alpha, 0);
  EXPECT_GT(links[4].alpha, 0);
}

TEST(LinkProbe, NamesSilentPeer) {
  InProcessJob::Options options;
  options.ranks_per_node = 1;
  options.wait.timeout = std::chrono::milliseconds(50);
  InProcessJob job(2, options);
  const auto transport = job.transport(0);
  const auto peers = transport->make_point_to_point();
  try {
    measure_link(*peers, transport->topology());
    FAIL();
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("for rank 1 (host thread-node-1) to answer"));
  }
}

}  // namespace
}  // namespace horo::collectives
