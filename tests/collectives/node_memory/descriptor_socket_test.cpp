#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "collectives/node_memory/shared_memory_file.h"
#include "horo/base/error.h"
#include "tests/support/private_network.h"

namespace horo::collectives {
namespace {

using ::testing::HasSubstr;

std::string address(const char* name) {
  return "horo.test." + std::to_string(getpid()) + "." + name;
}

TEST(DescriptorSocket, PassesDescriptor) {
  DescriptorSocket socket(address("a"));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const FileDescriptor reading(ends[0]);
  {
    const FileDescriptor writing(ends[1]);
    DescriptorSocket::send(writing.get(), address("a"));
  }
  const FileDescriptor received = socket.receive();
  ASSERT_TRUE(received.is_open());
  EXPECT_TRUE(fcntl(received.get(), F_GETFD) & FD_CLOEXEC);
  EXPECT_EQ(write(received.get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(reading.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
}

TEST(DescriptorSocket, ReceivesNothingBeforeSend) {
  DescriptorSocket socket(address("b"));
  EXPECT_THROW(socket.receive(), SharedMemoryError);
}

TEST(DescriptorSocket, IgnoresOtherUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  const std::string own = address("c");
  DescriptorSocket socket(own);
  const pid_t other_user = fork();
  if (other_user == 0) {
    if (setuid(65534) != 0) _exit(2);
    try {
      DescriptorSocket::send(1, own);
    } catch (const Error&) {
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(other_user, &status, 0), other_user);
  ASSERT_EQ(status, 0);
  EXPECT_THROW(socket.receive(), SharedMemoryError);
  DescriptorSocket::send(0, own);
  EXPECT_TRUE(socket.receive().is_open());
}

TEST(DescriptorSocket, ReportsWhyReceiveFails) {
  const auto text_of_failure = [] {
    try {
      DescriptorSocket::send(0, address("d"));
    } catch (const SharedMemoryError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(text_of_failure(), HasSubstr("one network namespace"));
  DescriptorSocket socket(address("d"));
  EXPECT_EQ(text_of_failure(), "");
  const PrivateNetwork network;
  if (!network.is_there()) GTEST_SKIP() << "only root can have a network of its own";
  EXPECT_THAT(text_of_failure(), HasSubstr("one network namespace"));
}

}  // namespace
}  // namespace horo::collectives
