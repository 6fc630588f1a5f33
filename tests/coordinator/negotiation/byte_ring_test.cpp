#include "horo/coordinator/negotiation/byte_ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <thread>

namespace horo::coordinator {
namespace {

struct RingMemory {
  RingMemory(std::size_t bytes, std::size_t readers)
      : capacity(bytes),
        count(readers),
        lines(ByteRing::bytes_needed(bytes, readers) / sizeof(Line) + 1) {}
  ByteRing ring() { return {reinterpret_cast<std::byte*>(lines.data()), capacity, count}; }
  struct alignas(64) Line {
    std::byte bytes[64]{};
  };
  std::size_t capacity, count;
  std::vector<Line> lines;
};

std::vector<std::byte> message(std::size_t length, unsigned salt) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(salt * 31 + i * 7);
  return bytes;
}

TEST(ByteRing, DeliversMessagesInOrderToEveryReader) {
  RingMemory memory(128, 3);
  ByteRingWriter writer(memory.ring());
  std::vector<ByteRingReader> readers;
  for (std::size_t r = 0; r < 3; ++r) readers.emplace_back(memory.ring(), r);
  std::mt19937 random(5);
  for (unsigned k = 0; k < 500; ++k) {
    const auto sent = message(random() % 400, k);
    writer.send(sent);
    std::vector<bool> has_got(3);
    for (int turns = 0; turns < 100; ++turns) {
      for (std::size_t r = 0; r < 3; ++r) {
        const auto got = readers[r].next();
        if (!got) continue;
        EXPECT_EQ(*got, sent);
        EXPECT_FALSE(has_got[r]);
        has_got[r] = true;
      }
      writer.flush();
    }
    EXPECT_EQ(has_got, std::vector<bool>(3, true));
    EXPECT_TRUE(writer.is_flushed());
  }
}

TEST(ByteRing, DoesNotOverwriteUnreadBytes) {
  RingMemory memory(64, 2);
  ByteRingWriter writer(memory.ring());
  ByteRingReader quick(memory.ring(), 0), slow(memory.ring(), 1);
  for (unsigned k = 0; k < 10; ++k) writer.send(message(20, k));
  EXPECT_FALSE(writer.is_flushed());
  EXPECT_TRUE(quick.next());
  EXPECT_TRUE(quick.take_has_made_room());  // according to the state of this reader
  EXPECT_FALSE(writer.flush());
  for (unsigned k = 0; k < 10; ++k) {
    auto got = slow.next();
    while (!got) {
      (void)quick.next();
      writer.flush();
      got = slow.next();
    }
    EXPECT_EQ(*got, message(20, k));
  }
}

TEST(ByteRing, WriterKeepsOnlyUnsentBytes) {
  RingMemory memory(64, 1);
  ByteRingWriter writer(memory.ring());
  ByteRingReader reader(memory.ring(), 0);
  const std::size_t length = 60;  // fills the ring, with its own length
  for (unsigned k = 0; k < 10000; ++k) {
    writer.send(message(length, k));
    if (k == 0) continue;
    ASSERT_FALSE(writer.is_flushed());
    EXPECT_EQ(reader.next(), message(length, k - 1));
  }
  EXPECT_LT(writer.memory_bytes(), 1000u);
}

TEST(ByteRing, ReaderAndWriterRunOnTwoThreads) {
  RingMemory memory(256, 1);
  constexpr unsigned kMessages = 20000;
  std::jthread sender([&] {
    ByteRingWriter writer(memory.ring());
    for (unsigned k = 0; k < kMessages; ++k) {
      writer.send(message(k % 97, k));
      while (!writer.is_flushed()) {
        writer.flush();
        std::this_thread::yield();
      }
    }
  });
  ByteRingReader reader(memory.ring(), 0);
  for (unsigned k = 0; k < kMessages;) {
    const auto got = reader.next();
    if (!got) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(*got, message(k % 97, k));
    ++k;
  }
}

}  // namespace
}  // namespace horo::coordinator
