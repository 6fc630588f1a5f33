#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <functional>
#include <thread>

#include "horo/watchdog/leader_link.h"
#include "tests/flight_recorder/snapshots.h"

namespace horo::observe {
namespace {

using namespace std::chrono_literals;
using Time = std::chrono::steady_clock::time_point;

Time now() { return std::chrono::steady_clock::now(); }

// Runs both ends until `is_done` returns true; fails after a limit.
void exchange_until(LeaderHub& hub, const HubStatus& status, std::vector<LeaderClient*> clients,
                    const std::function<bool()>& is_done) {
  const Time start = now();
  while (!is_done()) {
    ASSERT_LT(now() - start, 30s);
    for (std::size_t i = 0; i < clients.size(); ++i)
      clients[i]->exchange(
          {50 * kSecond, "", {make_rank(static_cast<int>(i) + 10, "x", 40 * kSecond)}}, now());
    hub.exchange(status, now(), 90 * kSecond);
    std::this_thread::sleep_for(1ms);
  }
}

TEST(Link, TransfersReportsAndHubStatus) {
  LeaderHub hub(4, 2, true);
  ASSERT_TRUE(hub.is_open());
  LeaderClient a(hub.address(), 1, 2);
  LeaderClient b(hub.address(), 2, 2);
  LeaderClient c(hub.address(), 3, 2);
  exchange_until(hub, {}, {&a, &b, &c}, [&] {
    return hub.nodes()[1].report && hub.nodes()[2].report && hub.nodes()[3].report;
  });
  EXPECT_FALSE(hub.nodes()[0].report);
  for (int node : {1, 2, 3}) {
    const LeaderHub::NodeStatus& status = hub.nodes()[static_cast<std::size_t>(node)];
    EXPECT_TRUE(status.is_connected);
    ASSERT_EQ(status.report->ranks.size(), 1u);
    EXPECT_EQ(status.report->ranks[0].rank, node + 9);
    // Submitted ten seconds before the report was sent, which is now by the hub's clock.
    EXPECT_EQ(status.report->ranks[0].open[0].submitted, 80 * kSecond);
  }
  exchange_until(hub, {"rank 11 is dead", false}, {&a, &b, &c}, [&] {
    return !a.end_reason().empty() && !b.end_reason().empty() && !c.end_reason().empty();
  });
  EXPECT_EQ(b.end_reason(), "rank 11 is dead");
  EXPECT_FALSE(b.has_hub_left());
  EXPECT_FALSE(b.hub_sees_all_ranks());
  exchange_until(hub, {"", false, false, true}, {&a, &b}, [&] { return b.hub_sees_all_ranks(); });
  exchange_until(hub, {"", true}, {&b}, [&] { return b.has_hub_left(); });
}

TEST(Link, AcceptsNewLeaderOfNode) {
  LeaderHub hub(2, 2, true);
  auto first = std::make_unique<LeaderClient>(hub.address(), 1, 2);
  exchange_until(hub, {}, {first.get()}, [&] { return hub.nodes()[1].report.has_value(); });
  first.reset();
  exchange_until(hub, {}, {}, [&] { return !hub.nodes()[1].is_connected; });
  LeaderClient second(hub.address(), 1, 2);
  exchange_until(hub, {}, {&second}, [&] { return hub.nodes()[1].is_connected; });
}

TEST(Link, RejectsPeerWithoutSecret) {
  LeaderHub hub(3, 2, true);
  HubAddress guessed = hub.address();
  guessed.node_secret[1] ^= 1;
  LeaderClient unauthenticated(guessed, 1, 2);
  LeaderClient authenticated(hub.address(), 2, 2);
  exchange_until(hub, {"a secret", false}, {&unauthenticated, &authenticated},
                 [&] { return !authenticated.end_reason().empty(); });
  EXPECT_FALSE(hub.nodes()[1].report);
  EXPECT_EQ(unauthenticated.end_reason(), "");
}

TEST(Link, RejectsHubOfOtherJob) {
  LeaderHub other(2, 2, true);
  HubAddress wrong = other.address();
  wrong.hub_secret[0] ^= 1;
  LeaderClient client(wrong, 1, 2);
  const Time start = now();
  const auto talk = [&] {
    client.exchange({}, now());
    other.exchange({"stop", false}, now(), 0);
    std::this_thread::sleep_for(1ms);
    return now() - start < 30s;
  };
  while (!other.nodes()[1].is_connected) ASSERT_TRUE(talk()) << "the hub never took the node in";
  for (int round = 0; round < 50; ++round) talk();
  EXPECT_EQ(client.end_reason(), "");
  EXPECT_FALSE(client.last_received());
}

TEST(Link, GarbageClosesOnlyItsConnection) {
  LeaderHub hub(2, 2, true);
  const std::vector<std::byte> garbage(100, std::byte{0x5a});
  auto socket = FrameSocket::connect("127.0.0.1", hub.address().server.port, 1000);
  ASSERT_TRUE(socket);
  const Time start = now();
  while (socket->is_open()) {
    ASSERT_LT(now() - start, 30s);
    socket->send(garbage);
    socket->receive();
    hub.exchange({}, now(), 0);
    std::this_thread::sleep_for(1ms);
  }
  LeaderClient client(hub.address(), 1, 2);
  exchange_until(hub, {}, {&client}, [&] { return hub.nodes()[1].report.has_value(); });
}

TEST(Link, OversizedFrameClosesConnection) {
  FileDescriptor listener = listen_on_tcp(true);
  auto sender = FrameSocket::connect("127.0.0.1", port_of(listener), 1 << 20);
  ASSERT_TRUE(sender);
  LeaderHub hub(2, 1, true);
  auto to_hub = FrameSocket::connect("127.0.0.1", hub.address().server.port, 1 << 30);
  ASSERT_TRUE(to_hub);
  to_hub->send(std::vector<std::byte>(max_message_bytes(1) + 1));
  const Time start = now();
  while (to_hub->is_open()) {
    ASSERT_LT(now() - start, 30s);
    to_hub->receive();
    hub.exchange({}, now(), 0);
    std::this_thread::sleep_for(1ms);
  }
}

TEST(Link, LimitsUnauthenticatedPeerToHello) {
  LeaderHub hub(2, 2, true);
  const Time start = now();
  const FileDescriptor peer(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(hub.address().server.port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(peer.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const auto announced = static_cast<std::uint32_t>(encode(Hello{}).size()) + 1;
  ASSERT_EQ(send(peer.get(), &announced, sizeof announced, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof announced));
  const auto is_open = [&] {
    char byte = 0;
    return recv(peer.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  };
  while (is_open()) {
    ASSERT_LT(now() - start, 30s);
    hub.exchange({}, start, 0);  // the time does not advance, so no connection times out
    std::this_thread::sleep_for(1ms);
  }
}

TEST(Link, AdmitsNodeBesideManyIdlePeers) {
  LeaderHub hub(2, 2, true);
  const Time start = now();
  std::vector<FrameSocket> idle_peers;
  for (int i = 0; i < 100; ++i) {
    auto peer = FrameSocket::connect("127.0.0.1", hub.address().server.port, 1000);
    ASSERT_TRUE(peer);
    idle_peers.push_back(std::move(*peer));
    if (i % 10 == 9) hub.exchange({}, start, 0);
  }
  LeaderClient client(hub.address(), 1, 2);
  while (!hub.nodes()[1].report) {
    ASSERT_LT(now() - start, 30s);
    client.exchange({0, "", {make_rank(1)}}, now());
    hub.exchange({}, start, 0);
    std::this_thread::sleep_for(1ms);
  }
}

TEST(Link, ClosesOldestIdlePeersAboveLimit) {
  constexpr int kPeers = 100, kMostIdle = 40;
  LeaderHub hub(2, 2, true);
  const Time start = now();
  std::vector<FrameSocket> peers;
  for (int i = 0; i < kPeers; ++i) {
    auto peer = FrameSocket::connect("127.0.0.1", hub.address().server.port, 1000);
    ASSERT_TRUE(peer);
    peers.push_back(std::move(*peer));
    if (i % 10 == 9) hub.exchange({}, start, 0);  // the time does not advance
  }
  const auto open_peers = [&] {
    for (FrameSocket& peer : peers) (void)peer.receive();
    return std::ranges::count_if(peers, &FrameSocket::is_open);
  };
  while (open_peers() > kMostIdle) {
    ASSERT_LT(now() - start, 30s);
    hub.exchange({}, start, 0);
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_FALSE(peers.front().is_open());
  EXPECT_TRUE(peers.back().is_open());
}

TEST(Link, RetriesUnreachableHubWithoutBlocking) {
  HubAddress nowhere;
  {
    const FileDescriptor listener = listen_on_tcp(true);
    nowhere.server.port = port_of(listener);  // released below
  }
  nowhere.server.set_addresses(std::vector<std::string>{"127.0.0.1", "not an address", "::1"});
  LeaderClient client(nowhere, 1, 1);
  for (int round = 0; round < 20; ++round) client.exchange({}, now());
  EXPECT_FALSE(client.last_received());
  EXPECT_TRUE(client.first_attempt());
}

// A connection whose send buffer is full is not writable, but it is still connected.
TEST(Link, ReceivesWhilePeerDoesNotRead) {
  const FileDescriptor listener = listen_on_tcp(true);
  auto own = FrameSocket::connect("127.0.0.1", port_of(listener), 1 << 20);
  ASSERT_TRUE(own);
  int accepted = -1;
  for (int polls = 0; polls < 20'000 && accepted < 0; ++polls) {
    accepted = accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    std::this_thread::sleep_for(1ms);
  }
  ASSERT_GE(accepted, 0);
  FrameSocket peer(FileDescriptor(accepted), 1 << 20);
  const std::vector<std::byte> large(1 << 20);
  for (int i = 0; i < 64; ++i) own->send(large);
  const std::vector<std::byte> small(3, std::byte{7});
  peer.send(small);
  std::optional<std::vector<std::byte>> received;
  for (int polls = 0; polls < 5'000 && !received; ++polls) {
    received = own->receive();
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(received, small);
}

}  // namespace
}  // namespace horo::observe
