#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <functional>
#include <thread>

#include "horo/observe/leader_client.h"
#include "horo/observe/leader_hub.h"
#include "tests/observe/snapshots.h"

namespace horo::observe {
namespace {

using namespace std::chrono_literals;
using Time = std::chrono::steady_clock::time_point;

Time now() { return std::chrono::steady_clock::now(); }

// Lets the ends talk until `is_done`, which must come.
void talk_until(LeaderHub& hub, const Word& word, std::vector<LeaderClient*> clients,
                const std::function<bool()>& is_done) {
  const Time start = now();
  while (!is_done()) {
    ASSERT_LT(now() - start, 30s);
    for (std::size_t i = 0; i < clients.size(); ++i)
      clients[i]->exchange(
          {50 * kSecond, "", {make_rank(static_cast<int>(i) + 10, "x", 40 * kSecond)}}, now());
    hub.exchange(word, now(), 90 * kSecond);
    std::this_thread::sleep_for(1ms);
  }
}

TEST(Link, ReportsReachTheHubInItsOwnTimeAndItsWordTheNodes) {
  LeaderHub hub(4, 2, true);
  ASSERT_TRUE(hub.is_open());
  LeaderClient a(hub.point(), 1, 2);
  LeaderClient b(hub.point(), 2, 2);
  LeaderClient c(hub.point(), 3, 2);
  talk_until(hub, {}, {&a, &b, &c},
             [&] { return hub.news()[1].report && hub.news()[2].report && hub.news()[3].report; });
  EXPECT_FALSE(hub.news()[0].report);
  for (int node : {1, 2, 3}) {
    const LeaderHub::News& news = hub.news()[static_cast<std::size_t>(node)];
    EXPECT_TRUE(news.is_connected);
    ASSERT_EQ(news.report->ranks.size(), 1u);
    EXPECT_EQ(news.report->ranks[0].rank, node + 9);
    // Ten seconds before it was sent, which is now by the hub's clock.
    EXPECT_EQ(news.report->ranks[0].open[0].submitted, 80 * kSecond);
  }
  talk_until(hub, {"rank 11 is dead", false}, {&a, &b, &c}, [&] {
    return !a.end_reason().empty() && !b.end_reason().empty() && !c.end_reason().empty();
  });
  EXPECT_EQ(b.end_reason(), "rank 11 is dead");
  EXPECT_FALSE(b.has_hub_left());
  EXPECT_FALSE(b.does_hub_see_all());
  talk_until(hub, {"", false, false, true}, {&a, &b}, [&] { return b.does_hub_see_all(); });
  talk_until(hub, {"", true}, {&b}, [&] { return b.has_hub_left(); });
}

TEST(Link, AnotherRankMaySpeakForTheNodeWhenItsSpeakerIsGone) {
  LeaderHub hub(2, 2, true);
  auto first = std::make_unique<LeaderClient>(hub.point(), 1, 2);
  talk_until(hub, {}, {first.get()}, [&] { return hub.news()[1].report.has_value(); });
  first.reset();
  talk_until(hub, {}, {}, [&] { return !hub.news()[1].is_connected; });
  LeaderClient second(hub.point(), 1, 2);
  talk_until(hub, {}, {&second}, [&] { return hub.news()[1].is_connected; });
}

TEST(Link, WhoDoesNotKnowTheSecretIsNotHeard) {
  LeaderHub hub(3, 2, true);
  MeetingPoint guessed = hub.point();
  guessed.of_nodes[1] ^= 1;
  LeaderClient stranger(guessed, 1, 2);
  LeaderClient friendly(hub.point(), 2, 2);
  talk_until(hub, {"a secret", false}, {&stranger, &friendly},
             [&] { return !friendly.end_reason().empty(); });
  EXPECT_FALSE(hub.news()[1].report);
  EXPECT_EQ(stranger.end_reason(), "");
}

TEST(Link, ANodeDoesNotListenToSomebodyElsesHub) {
  LeaderHub other(2, 2, true);
  MeetingPoint wrong = other.point();
  wrong.of_hub[0] ^= 1;
  LeaderClient client(wrong, 1, 2);
  const Time start = now();
  const auto talk = [&] {
    client.exchange({}, now());
    other.exchange({"stop", false}, now(), 0);
    std::this_thread::sleep_for(1ms);
    return now() - start < 30s;
  };
  while (!other.news()[1].is_connected) ASSERT_TRUE(talk()) << "the hub never took the node in";
  for (int round = 0; round < 50; ++round) talk();
  EXPECT_EQ(client.end_reason(), "");
  EXPECT_FALSE(client.last_heard());
}

TEST(Link, GarbageEndsTheConnectionOnly) {
  LeaderHub hub(2, 2, true);
  const std::vector<std::byte> garbage(100, std::byte{0x5a});
  auto socket = FrameSocket::connect("127.0.0.1", hub.point().port, 1000);
  ASSERT_TRUE(socket);
  const Time start = now();
  while (socket->is_open()) {
    ASSERT_LT(now() - start, 30s);
    socket->send(garbage);
    socket->receive();
    hub.exchange({}, now(), 0);
    std::this_thread::sleep_for(1ms);
  }
  LeaderClient client(hub.point(), 1, 2);
  talk_until(hub, {}, {&client}, [&] { return hub.news()[1].report.has_value(); });
}

TEST(Link, AFrameBeyondTheLimitEndsTheConnection) {
  FileDescriptor listener = listen_on_tcp(true);
  auto sender = FrameSocket::connect("127.0.0.1", port_of(listener), 1 << 20);
  ASSERT_TRUE(sender);
  LeaderHub hub(2, 1, true);
  auto to_hub = FrameSocket::connect("127.0.0.1", hub.point().port, 1 << 30);
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

TEST(Link, AStrangerMayNotAnnounceMoreThanAHello) {
  LeaderHub hub(2, 2, true);
  const Time start = now();
  const FileDescriptor stranger(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(hub.point().port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(stranger.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const auto announced = static_cast<std::uint32_t>(encode(Hello{}).size()) + 1;
  ASSERT_EQ(send(stranger.get(), &announced, sizeof announced, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof announced));
  const auto is_open = [&] {
    char byte = 0;
    return recv(stranger.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  };
  while (is_open()) {
    ASSERT_LT(now() - start, 30s);
    hub.exchange({}, start, 0);  // whose time stands still, so nobody is late
    std::this_thread::sleep_for(1ms);
  }
}

TEST(Link, ACrowdOfSilentStrangersDoesNotKeepANodeOut) {
  LeaderHub hub(2, 2, true);
  const Time start = now();
  std::vector<FrameSocket> strangers;
  for (int i = 0; i < 100; ++i) {
    auto stranger = FrameSocket::connect("127.0.0.1", hub.point().port, 1000);
    ASSERT_TRUE(stranger);
    strangers.push_back(std::move(*stranger));
    if (i % 10 == 9) hub.exchange({}, start, 0);
  }
  LeaderClient client(hub.point(), 1, 2);
  while (!hub.news()[1].report) {
    ASSERT_LT(now() - start, 30s);
    client.exchange({0, "", {make_rank(1)}}, now());
    hub.exchange({}, start, 0);
    std::this_thread::sleep_for(1ms);
  }
}

TEST(Link, AHubThatIsNotThereIsTriedAgainAndNothingBlocks) {
  MeetingPoint nowhere;
  {
    const FileDescriptor listener = listen_on_tcp(true);
    nowhere.port = port_of(listener);  // free again below
  }
  nowhere.set_addresses(std::vector<std::string>{"127.0.0.1", "not an address", "::1"});
  LeaderClient client(nowhere, 1, 1);
  for (int round = 0; round < 20; ++round) client.exchange({}, now());
  EXPECT_FALSE(client.last_heard());
  EXPECT_TRUE(client.first_try());
}

TEST(MeetingPoint, AddressesAreKeptAsFarAsTheyFit) {
  MeetingPoint point;
  std::vector<std::string> addresses = {std::string(100, '1')};
  for (int i = 0; i < 40; ++i) addresses.push_back("10.0.0." + std::to_string(i));
  point.set_addresses(addresses);
  const auto kept = point.address_list();
  ASSERT_EQ(kept.size(), MeetingPoint::kMaxAddresses);
  EXPECT_EQ(kept[0], "10.0.0.0");
  EXPECT_NE(random_secret(), random_secret());
}

}  // namespace
}  // namespace horo::observe
