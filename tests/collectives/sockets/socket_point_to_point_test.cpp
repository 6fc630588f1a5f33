#include "collectives/sockets/socket_point_to_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <vector>

#include "horo/base/error.h"
#include "tests/collectives/sockets/socket_ranks.h"

namespace horo::collectives {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class SocketPeers : public testing::TestWithParam<Carrier> {};

// Bytes that depend on the sender, the message and the position.
std::vector<std::byte> values(std::size_t count, int rank, int message) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>(i * 7 + i / 251 + static_cast<std::size_t>(rank) * 31 +
                                      static_cast<std::size_t>(message) * 13);
  return bytes;
}

// Every rank sends to every rank, also to itself, messages of many sizes in both directions at
// once.
TEST_P(SocketPeers, ExchangeMessagesOfAllSizes) {
  run_socket_ranks(4, GetParam(), [](SocketRank& rank) {
    const auto peers = rank.peers(5);
    const std::vector<std::size_t> sizes = {0, 1, 15, 16, 17, 4096, 100'003, 3 << 20};
    std::vector<std::vector<std::byte>> sent, received;
    std::vector<PointToPoint::Ticket> tickets;
    for (int other = 0; other < 4; ++other)
      for (int m = 0; m < static_cast<int>(sizes.size()); ++m)
        sent.push_back(values(sizes[static_cast<std::size_t>(m)], peers->rank(), m * 4 + other));
    received.reserve(4 * sizes.size());
    std::size_t next = 0;
    for (int other = 0; other < 4; ++other)
      for (const std::size_t size : sizes) {
        tickets.push_back(peers->start_send(other, 3, sent[next++]));
        received.emplace_back(size);
        tickets.push_back(peers->start_receive(other, 3, received.back()));
      }
    for (const auto ticket : tickets) peers->wait(ticket, "for the messages");
    next = 0;
    for (int other = 0; other < 4; ++other)
      for (int m = 0; m < static_cast<int>(sizes.size()); ++m)
        ASSERT_EQ(received[next++],
                  values(sizes[static_cast<std::size_t>(m)], other, m * 4 + peers->rank()))
            << "message " << m << " of rank " << other;
  });
}

TEST_P(SocketPeers, MatchMessagesByTag) {
  run_socket_ranks(2, GetParam(), [](SocketRank& rank) {
    const auto peers = rank.peers(6);
    constexpr std::size_t kBytes = 1 << 20;  // more than the kernel queues
    if (rank.topology.rank == 0) {
      const auto first = values(kBytes, 0, 1), second = values(kBytes, 0, 2),
                 third = values(9, 0, 3);
      const PointToPoint::Ticket tickets[] = {peers->start_send(1, 10, first),
                                              peers->start_send(1, 20, second),
                                              peers->start_send(1, 10, third)};
      for (const auto ticket : tickets) peers->wait(ticket, "to send");
      return;
    }
    std::vector<std::byte> first(kBytes), second(kBytes), third(9);
    peers->wait(peers->start_receive(0, 20, second), "for the second message");
    const auto later = peers->start_receive(0, 10, first);
    peers->wait(peers->start_receive(0, 10, third), "for the third message");
    peers->wait(later, "for the first message");
    EXPECT_EQ(first, values(kBytes, 0, 1));
    EXPECT_EQ(second, values(kBytes, 0, 2));
    EXPECT_EQ(third, values(9, 0, 3));
  });
}

// The receive is started while its message, for which there was no receive, is arriving.
TEST_P(SocketPeers, ReceiveMessageThatIsArriving) {
  run_socket_ranks(2, GetParam(), [](SocketRank& rank) {
    const auto peers = rank.peers(7);
    constexpr std::size_t kBytes = 8 << 20;
    if (rank.topology.rank == 0) {
      const auto large = values(kBytes, 0, 1), small = values(5, 0, 2);
      const auto ticket = peers->start_send(1, 1, large);
      const auto last = peers->start_send(1, 2, small);
      peers->wait(ticket, "to send");
      peers->wait(last, "to send");
      return;
    }
    std::vector<std::byte> large(kBytes), small(5);
    const auto last = peers->start_receive(0, 2, small);
    peers->test(last);
    const auto ticket = peers->start_receive(0, 1, large);
    peers->wait(last, "for the small message");
    peers->wait(ticket, "for the large message");
    EXPECT_EQ(large, values(kBytes, 0, 1));
    EXPECT_EQ(small, values(5, 0, 2));
  });
}

TEST_P(SocketPeers, StreamsAreIsolated) {
  run_socket_ranks(3, GetParam(), [](SocketRank& rank) {
    const auto one = rank.peers(1), two = rank.peers(2);
    const int right = (rank.topology.rank + 1) % 3, left = (rank.topology.rank + 2) % 3;
    const auto of_one = values(10, rank.topology.rank, 1),
               of_two = values(10, rank.topology.rank, 2);
    std::vector<std::byte> from_one(10), from_two(10);
    const auto receive = one->start_receive(left, 0, from_one);
    two->wait(two->start_send(right, 0, of_two), "to send");
    one->wait(one->start_send(right, 0, of_one), "to send");
    one->wait(receive, "to receive");
    two->wait(two->start_receive(left, 0, from_two), "to receive");
    EXPECT_EQ(from_one, values(10, left, 1));
    EXPECT_EQ(from_two, values(10, left, 2));
  });
}

TEST_P(SocketPeers, WrongSizeNamesBothSizes) {
  run_socket_ranks(2, GetParam(), [](SocketRank& rank) {
    const auto peers = rank.peers(8);
    const std::vector<std::byte> bytes(10);
    std::vector<std::byte> shorter(9);
    if (rank.topology.rank == 0) return peers->wait(peers->start_send(1, 0, bytes), "to send");
    try {
      peers->wait(peers->start_receive(0, 0, shorter), "to receive");
      FAIL() << "a message of another size was accepted";
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 0 (host a) sent 10 bytes where rank 1 expected 9"));
    }
  });
}

TEST_P(SocketPeers, ClosedPeerEndsWait) {
  run_socket_ranks(2, GetParam(), [](SocketRank& rank) {
    auto peers = rank.peers(9);
    std::byte byte{};
    if (rank.topology.rank == 0) {
      peers->wait(peers->start_send(1, 0, {&byte, 1}), "to send");
      peers.reset();
      return;
    }
    peers->wait(peers->start_receive(0, 0, {&byte, 1}), "to receive");
    try {
      peers->wait(peers->start_receive(0, 0, {&byte, 1}), "to receive");
      FAIL() << "the wait ended without a message";
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 0 (host a): it has closed its connection"));
    }
  });
}

TEST_P(SocketPeers, TimeoutNamesMissingMessage) {
  run_socket_ranks(2, GetParam(), [](SocketRank& rank) {
    rank.policy.timeout = 100ms;
    const auto peers = rank.peers(10);
    std::byte byte{};
    try {
      peers->wait(peers->start_receive(1 - rank.topology.rank, 0, {&byte, 1}),
                  "for a lost message");
      FAIL() << "the wait ended without a message";
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("for a lost message"));
    }
  });
}

TEST(SocketPointToPoint, UnreachablePeerIsNamed) {
  run_socket_ranks(2, Carrier::kTcp, [](SocketRank& rank) {
    if (rank.topology.rank == 1) return;
    RankAddress& other = rank.mesh->address_of[1];
    other.tcp.port = 1;  // nothing listens on it
    const auto peers = rank.peers(11);
    std::byte byte{};
    try {
      peers->wait(peers->start_send(1, 0, {&byte, 1}), "to send");
      FAIL() << "the message was sent";
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1 (host a): cannot connect to it at 127.0.0.1"));
      EXPECT_THAT(error.what(), HasSubstr("Connection refused"));
      EXPECT_THAT(error.what(), HasSubstr("firewall"));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Over, SocketPeers, testing::Values(Carrier::kUnixSockets, Carrier::kTcp),
                         [](const auto& tested) {
                           return tested.param == Carrier::kTcp ? "Tcp" : "UnixSockets";
                         });

}  // namespace
}  // namespace horo::collectives
