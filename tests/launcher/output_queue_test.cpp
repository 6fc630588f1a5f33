#include "launcher/output_queue.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>

namespace horo {
namespace {

/// Two connected descriptors; the test reads the first.
struct Channel {
  FileDescriptor reader, writer;
};

Channel make_pipe() {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

Channel make_sockets() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

/// Exceeds the capacity of a pipe or a socket. All lines differ.
std::string long_text() {
  std::string text;
  for (int i = 0; text.size() < std::size_t{1} << 20; ++i) text += fmt::format("line {}\n", i);
  return text;
}

std::string read_all(OutputQueue& queue, int reader, std::size_t size) {
  std::string text;
  char buffer[10000];
  while (text.size() < size) {
    const ssize_t count = read(reader, buffer, sizeof buffer);
    if (count <= 0) break;
    text.append(buffer, static_cast<std::size_t>(count));
    queue.write_some();
  }
  return text;
}

TEST(OutputQueue, KeepsUnreadOutput) {
  for (const auto make : {make_pipe, make_sockets}) {
    const Channel channel = make();
    const int flags = fcntl(channel.writer.get(), F_GETFL);
    OutputQueue queue(channel.writer.get());
    const std::string text = long_text();
    queue.add(text);
    EXPECT_TRUE(queue.is_full());
    EXPECT_EQ(read_all(queue, channel.reader.get(), text.size()), text);
    EXPECT_TRUE(queue.is_empty());
    EXPECT_EQ(fcntl(channel.writer.get(), F_GETFL), flags) << "other processes share them";
  }
}

TEST(OutputQueue, SharesFileWithOtherWriters) {
  const FileDescriptor file(open("/tmp", O_TMPFILE | O_RDWR, 0600));
  ASSERT_TRUE(file.is_open());
  OutputQueue queue(file.get());
  ASSERT_EQ(write(file.get(), "a", 1), 1);
  queue.add("b");
  ASSERT_EQ(write(file.get(), "c", 1), 1);
  EXPECT_TRUE(queue.is_empty());
  char text[4] = {};
  EXPECT_EQ(pread(file.get(), text, 3, 0), 3);
  EXPECT_STREQ(text, "abc");
}

TEST(OutputQueue, DropsOutputWithoutReader) {
  Channel channel = make_pipe();
  OutputQueue queue(channel.writer.get());
  queue.add(long_text());
  { const FileDescriptor closed = std::move(channel.reader); }
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  queue.add("more");
  std::signal(SIGPIPE, before);
  EXPECT_TRUE(queue.is_empty());
}

}  // namespace
}  // namespace horo
