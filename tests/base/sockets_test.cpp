#include "horo/base/system/sockets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "horo/base/error.h"

namespace horo {
namespace {

using namespace std::chrono_literals;

// Waits for the result, but fails after a limit.
int result_of(const FileDescriptor& socket) {
  for (int polls = 0; polls < 20'000; ++polls) {
    if (const auto result = connection_result(socket)) return *result;
    std::this_thread::sleep_for(1ms);
  }
  return -1;
}

TEST(TcpAddress, KeepsAddressesThatFit) {
  TcpAddress point;
  std::vector<std::string> addresses = {std::string(100, '1')};
  for (int i = 0; i < 40; ++i) addresses.push_back("10.0.0." + std::to_string(i));
  point.set_addresses(addresses);
  const auto kept = point.address_list();
  ASSERT_EQ(kept.size(), TcpAddress::kMaxAddresses);
  EXPECT_EQ(kept[0], "10.0.0.0");
  EXPECT_NE(random_secret(), random_secret());
}

TEST(HostAddresses, AreThoseOfNamedInterfaces) {
  const std::vector<std::string> loopback = {"lo"};
  const auto of_loopback = host_addresses(loopback);
  ASSERT_FALSE(of_loopback.empty());
  EXPECT_EQ(of_loopback[0], "127.0.0.1");
  for (const std::string& address : host_addresses()) EXPECT_NE(address, "127.0.0.1");
}

TEST(HostAddresses, ErrorNamesInterfaceAndThoseOfHost) {
  const std::vector<std::string> names = {"lo", "no_such0"};
  try {
    host_addresses(names);
    FAIL() << "no error";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("HORO_INTERFACES names 'no_such0'"));
    EXPECT_THAT(error.what(), ::testing::ContainsRegex("it has: .*lo"));
  }
}

TEST(Sockets, ConnectsOverLoopback) {
  const FileDescriptor listener = listen_on_tcp(true);
  EXPECT_FALSE(accept_connection(listener).is_open());
  const FileDescriptor socket = start_connection("127.0.0.1", port_of(listener));
  ASSERT_TRUE(socket.is_open());
  EXPECT_EQ(result_of(socket), 0);
  EXPECT_TRUE(accept_connection(listener).is_open());
}

TEST(Sockets, ReportsRefusedAndInvalidAddresses) {
  std::uint16_t port = 0;
  {
    const FileDescriptor listener = listen_on_tcp(true);
    port = port_of(listener);  // nothing listens on it after this block
  }
  const FileDescriptor socket = start_connection("127.0.0.1", port);
  EXPECT_EQ(socket.is_open() ? result_of(socket) : errno, ECONNREFUSED);
  EXPECT_FALSE(start_connection("host.example", port).is_open());
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace horo
