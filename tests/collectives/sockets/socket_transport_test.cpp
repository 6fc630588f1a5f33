#include "collectives/sockets/socket_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "collectives/sockets/socket_message_channel.h"
#include "horo/base/error.h"
#include "tests/collectives/contract/channel_checks.h"
#include "tests/collectives/sockets/socket_ranks.h"

namespace horo::collectives {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

void run_transports(int ranks, std::size_t per_node,
                    const std::function<void(SocketTransport&)>& function) {
  run_groups(ranks, [&](RankGroup& group, int rank) {
    WaitPolicy policy;
    policy.timeout = 60s;
    SocketTransport transport(group, policy, per_node);
    function(transport);
    group.gather_values(rank, "for the end of the test");
  });
}

TEST(SocketTransport, TopologyFollowsEmulatedNodes) {
  run_transports(5, 2, [](SocketTransport& transport) {
    const Topology& topology = transport.topology();
    EXPECT_EQ(topology.size, 5);
    EXPECT_EQ(topology.node_count, 3);
    EXPECT_EQ(topology.node, topology.rank / 2);
    EXPECT_FALSE(topology.host_of[0].empty());
  });
}

TEST(SocketTransport, ChannelsDeliverMessagesInOrder) {
  // The largest messages exceed what the kernel queues.
  run_transports(4, 0, [](SocketTransport& transport) { check_channels(transport, 97); });
}

TEST(SocketTransport, SubsetsAreIsolated) {
  run_transports(4, 0, [](SocketTransport& transport) {
    const int rank = transport.topology().rank;
    const auto odd = transport.make_subset({1, 3}, 1);
    const auto again = transport.make_subset({1, 3}, 2);
    const auto even = transport.make_subset({0, 2}, 1);
    EXPECT_EQ(odd != nullptr, rank % 2 == 1);
    EXPECT_EQ(even != nullptr, rank % 2 == 0);
    for (Transport* set : {odd.get(), again.get(), even.get()}) {
      if (set == nullptr) continue;
      EXPECT_EQ(set->topology().rank, rank / 2);
      const auto region = set->make_node_region(100);
      const auto peers = set->make_point_to_point();
      int sent = rank * 10 + (set == again.get());
      int received = -1;
      const int other = 1 - peers->rank();
      const auto receive =
          peers->start_receive(other, 0, std::as_writable_bytes(std::span(&received, 1)));
      peers->wait(peers->start_send(other, 0, std::as_bytes(std::span(&sent, 1))), "to send");
      peers->wait(receive, "to receive");
      EXPECT_EQ(received, (rank ^ 2) * 10 + (set == again.get()));
    }
  });
}

TEST(SocketTransport, SharesMemoryOnNode) {
  run_transports(4, 2, [](SocketTransport& transport) {
    const auto region = transport.make_node_region(1 << 16);
    auto& counter = *reinterpret_cast<std::atomic<int>*>(region->bytes().data() + 4096);
    counter += transport.topology().local_rank + 1;
    Waiter waiter(transport.wait_policy());
    while (counter.load() < 3) waiter.pause("for the ranks of the node");
    EXPECT_EQ(counter.load(), 3);
  });
}

TEST(SocketTransport, AllRanksThrowIfMemoryIsTooSmall) {
  run_transports(3, 2, [](SocketTransport& transport) {
    EXPECT_THROW(transport.make_node_region(std::size_t{1} << 45), SharedMemoryError);
    EXPECT_EQ(transport.make_node_region(100)->bytes().size(), 100u);
  });
}

TEST(SocketTransport, AbortEndsWaitsOfNode) {
  run_transports(2, 0, [](SocketTransport& transport) {
    const auto peers = transport.make_point_to_point();
    if (peers->rank() == 1) return transport.abort("rank 1 has no more data");
    std::byte byte{};
    try {
      peers->wait(peers->start_receive(1, 0, {&byte, 1}), "for rank 1");
      FAIL();
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1 has no more data"));
    }
  });
}

// A message that was sent before the sender's channel is destroyed arrives.
TEST(SocketTransport, DeliversMessagesOfClosedChannel) {
  run_transports(2, 0, [](SocketTransport& transport) {
    auto channel = transport.make_message_channel();
    if (channel->rank() == 0) {
      channel->send(1, std::vector<std::byte>(5 << 20, std::byte{7}));
      channel.reset();
      return;
    }
    Waiter waiter(transport.wait_policy());
    std::optional<MessageChannel::Message> message;
    while (!(message = channel->poll())) waiter.pause("for the message");
    EXPECT_EQ(message->bytes, std::vector<std::byte>(5 << 20, std::byte{7}));
    channel->send(0, message->bytes);  // is dropped
  });
}

// The sender calls nothing after send(), although its first message must wait for the connection.
TEST(SocketTransport, SendNeedsNoFurtherCalls) {
  run_groups(2, [](RankGroup& group, int rank) {
    SocketTransport transport(group, {}, 0);
    const auto channel = transport.make_message_channel();
    for (int message = 0; message < 3; ++message) {
      if (rank == 0) channel->send(1, std::vector<std::byte>(3 << 20, std::byte{5}));
      Waiter waiter(transport.wait_policy());
      for (std::optional<MessageChannel::Message> got; rank == 1 && !got; got = channel->poll())
        waiter.pause("for the message");
      group.gather_values(rank, "for the message");
    }
  });
}

// Sends `bytes` to the listener from a client of its own. Returns what the listener replies until
// it closes the connection, or nullopt if it neither replies nor closes within `limit`.
std::optional<std::size_t> reply_to(const SocketListener& listener,
                                    std::span<const std::byte> bytes,
                                    std::chrono::milliseconds limit) {
  const FileDescriptor socket = start_connection("127.0.0.1", listener.address().tcp.port);
  while (!connection_result(socket)) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
  std::byte reply[64];
  std::size_t received = 0;
  for (const auto end = std::chrono::steady_clock::now() + limit;
       std::chrono::steady_clock::now() < end; std::this_thread::sleep_for(1ms)) {
    const ssize_t n = recv(socket.get(), reply + received, sizeof reply - received, 0);
    if (n == 0 || (n < 0 && errno == ECONNRESET)) return received;
    if (n > 0) received += static_cast<std::size_t>(n);
    if (received == sizeof(std::uint64_t)) return received;
  }
  return std::nullopt;
}

TEST(SocketListener, AcceptsOnlyTheSecret) {
  SocketListener listener;
  const auto inbox = listener.open(4);
  SocketListener::Greeting greeting{
      .secret = listener.address().secret[0], .stream = 4, .source = 2};
  EXPECT_EQ(reply_to(listener, std::as_bytes(std::span(&greeting, 1)), 20s), sizeof(std::uint64_t));
  const auto connection = inbox->take();
  ASSERT_TRUE(connection);
  EXPECT_EQ(connection->source, 2);
  ++greeting.secret;
  EXPECT_EQ(reply_to(listener, std::as_bytes(std::span(&greeting, 1)), 20s), 0u);
  EXPECT_FALSE(inbox->take());
}

TEST(SocketListener, ClosesConnectionsWithoutGreeting) {
  SocketListener listener;
  const std::vector<std::byte> part(sizeof(SocketListener::Greeting) - 1);
  EXPECT_EQ(reply_to(listener, part, 100ms), std::nullopt);
  EXPECT_EQ(reply_to(listener, part, 30s), 0u) << "closed after five seconds";
}

TEST(SocketListener, KeepsConnectionsUntilStreamIsOpened) {
  SocketListener listener;
  const SocketListener::Greeting greeting{
      .secret = listener.address().secret[0], .stream = 9, .source = 1};
  EXPECT_EQ(reply_to(listener, std::as_bytes(std::span(&greeting, 1)), 20s), sizeof(std::uint64_t));
  EXPECT_TRUE(listener.open(9)->take());
  EXPECT_FALSE(listener.open(8)->take());
}

}  // namespace
}  // namespace horo::collectives
