#include "collectives/mpi/mpi_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "collectives/mpi/mpi_point_to_point.h"
#include "collectives/ring/ring_collectives.h"
#include "horo/base/error.h"
#include "tests/collectives/contract/channel_checks.h"

namespace horo::collectives {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

WaitPolicy short_waits() {
  WaitPolicy policy;
  policy.timeout = 200ms;
  return policy;
}

TEST(MpiTransport, TopologyFollowsEmulatedNodes) {
  for (const std::size_t per_node : {0, 1, 2, 3}) {
    const MpiTransport transport(MPI_COMM_WORLD, {}, per_node);
    const Topology& topology = transport.topology();
    const int width = per_node == 0 ? topology.size : static_cast<int>(per_node);
    EXPECT_EQ(topology.node_count, (topology.size + width - 1) / width);
    EXPECT_EQ(topology.node, topology.rank / width);
    EXPECT_EQ(topology.local_rank, topology.rank % width);
    EXPECT_FALSE(topology.host_of[0].empty());
  }
}

TEST(MpiTransport, ChannelsDeliverMessagesInOrder) {
  MpiTransport transport(MPI_COMM_WORLD, {}, 0);
  check_channels(transport, 7);
}

TEST(MpiTransport, ThreadsUseSeparateChannels) {
  MpiTransport transport(MPI_COMM_WORLD, {}, 0);
  std::vector<std::unique_ptr<PointToPoint>> peers;
  for (int i = 0; i < 3; ++i) peers.push_back(transport.make_point_to_point());
  std::vector<std::jthread> threads;
  for (auto& own : peers)
    threads.emplace_back([&own] {
      RingCollectives ring(*own, 4096);
      std::vector<double> data(5000, own->rank() + 1.0);
      for (int run = 0; run < 10; ++run) {
        ring.allreduce(ScatteredBuffer(DataType::kFloat64, data.data(), data.size()),
                       ReduceOp::kMax);
        ASSERT_EQ(data[4999], own->size());
      }
    });
}

TEST(MpiTransport, TimeoutNamesMissingRank) {
  MpiTransport transport(MPI_COMM_WORLD, short_waits(), 0);
  const auto peers = transport.make_point_to_point();
  const int last = peers->size() - 1;
  if (last == 0) return;
  if (peers->rank() == 0) {
    RingCollectives ring(*peers, 4096);
    float value = 0;
    try {
      ring.broadcast(ScatteredBuffer(DataType::kFloat32, &value, 1), last);
      FAIL() << "the broadcast ended without its root";
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("to send the data of a broadcast"));
      EXPECT_THAT(error.what(), HasSubstr("waited"));
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(MpiTransport, AbortEndsWaitsOfNode) {
  MpiTransport transport(MPI_COMM_WORLD, {}, 0);
  const auto peers = transport.make_point_to_point();
  if (peers->size() == 1) return;
  MPI_Barrier(MPI_COMM_WORLD);  // all ranks have created their channels
  if (peers->rank() == 1) transport.abort("rank 1 has no more data");
  if (peers->rank() == 0) {
    std::byte byte{};
    const auto ticket = peers->start_receive(1, 0, {&byte, 1});
    try {
      peers->wait(ticket, "for rank 1");
      FAIL();
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1 has no more data"));
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(MpiPointToPoint, SplitsTransfersEquallyOnBothSides) {
  const WaitPolicy policy;
  for (const std::size_t largest : {1, 7, 1000, 100000}) {
    MpiPointToPoint peers(MpiComm::duplicate_of(MPI_COMM_WORLD, policy), policy, largest);
    const int right = (peers.rank() + 1) % peers.size();
    const int left = (peers.rank() + peers.size() - 1) % peers.size();
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{1}, std::size_t{14}, std::size_t{3001}}) {
      std::vector<std::byte> out(bytes, static_cast<std::byte>(peers.rank() + 1)), in(bytes);
      for (std::size_t i = 0; i < bytes; i += 5) out[i] = static_cast<std::byte>(i);
      const auto receive = peers.start_receive(left, 1, in);
      const auto send = peers.start_send(right, 1, out);
      peers.wait(receive, "for a neighbour");
      peers.wait(send, "for a neighbour");
      for (std::size_t i = 0; i < bytes; ++i)
        ASSERT_EQ(in[i], i % 5 == 0 ? static_cast<std::byte>(i) : static_cast<std::byte>(left + 1));
    }
  }
}

TEST(MpiPointToPoint, DeliversSendAfterChannelIsDestroyed) {
  const WaitPolicy policy;
  constexpr std::size_t kBytes = 4 << 20;
  std::vector<std::byte> memory(kBytes, std::byte{7});
  {
    MpiPointToPoint peers(MpiComm::duplicate_of(MPI_COMM_WORLD, policy), policy, 1 << 20);
    if (peers.rank() == 0 && peers.size() > 1) peers.start_send(1, 1, memory);
    if (peers.rank() == 1) {
      std::vector<std::byte> in(kBytes);
      peers.wait(peers.start_receive(0, 1, in), "for rank 0");
      EXPECT_EQ(std::count(in.begin(), in.end(), std::byte{7}), kBytes);
    }
  }
  std::fill(memory.begin(), memory.end(), std::byte{0});
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(MpiHandles, ErrorsNameCallAndRank) {
  const MpiComm comm = MpiComm::duplicate_of(MPI_COMM_WORLD, WaitPolicy{});
  int value = 0;
  try {
    HORO_MPI(MPI_Send(&value, 1, MPI_INT, comm.size(), 0, comm.get()));
    FAIL() << "a rank that does not exist was accepted";
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("MPI_Send(&value, 1, MPI_INT"));
    EXPECT_THAT(error.what(), HasSubstr("rank " + std::to_string(comm.rank())));
    EXPECT_THAT(error.what(), HasSubstr("mpi_transport_test.cpp"));
  }
}

}  // namespace
}  // namespace horo::collectives
