#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "collectives/collectives.h"

namespace horo::collectives::large {

/// Exceeds the range of a signed 32-bit integer.
inline constexpr std::size_t kBytes = (std::size_t{1} << 31) + 13;

/// Why the tests cannot run on this machine; empty if they can. Two ranks use at most 9 GiB.
inline std::string skip_reason() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return "SKIPPED: a sanitizer multiplies the memory and time that 2^31 bytes need";
#endif
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  std::size_t kib = 0;
  for (std::string unit; meminfo >> name >> kib; std::getline(meminfo, unit))
    if (name == "MemAvailable:") break;
  if (kib >= std::size_t{12} << 20) return {};
  return "SKIPPED: needs 12 GiB of free memory, this machine has " + std::to_string(kib >> 20);
}

/// The eight bytes at offset `index` * 8 of the data of `rank`.
inline std::uint64_t random_word(int rank, std::size_t index) {
  const std::uint64_t x = (index + 1) * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(rank);
  return (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9u;
}
inline std::uint8_t byte_of(int rank, std::size_t index) {
  return static_cast<std::uint8_t>(random_word(rank, index / 8) >> (index % 8 * 8));
}

class Buffer {
 public:
  explicit Buffer(std::size_t bytes)
      : bytes_(bytes), memory_(std::make_unique_for_overwrite<std::byte[]>(bytes)) {}
  std::span<std::byte> all() { return {memory_.get(), bytes_}; }
  std::uint8_t operator[](std::size_t i) const { return static_cast<std::uint8_t>(memory_[i]); }

  /// Writes the first `count` bytes of the data of `rank` to [begin, begin + count).
  void fill(int rank, std::size_t begin, std::size_t count) {
    for (std::size_t i = 0; i < count; i += 8) {
      const std::uint64_t value = random_word(rank, i / 8);
      std::memcpy(memory_.get() + begin + i, &value, std::min<std::size_t>(8, count - i));
    }
  }
  void clear() { std::memset(memory_.get(), 0xa5, bytes_); }

 private:
  std::size_t bytes_;
  std::unique_ptr<std::byte[]> memory_;
};

/// Expects that byte i of [begin, begin + count) equals expected(i). Checks both ends, the bytes
/// around 2^30 and 2^31, and a stride between them.
template <typename Expected>
void check(const Buffer& buffer, std::size_t begin, std::size_t count, Expected&& expected) {
  const auto check_range = [&](std::size_t first, std::size_t last, std::size_t stride) {
    for (std::size_t i = first; i < std::min(last, count); i += stride)
      ASSERT_EQ(int{buffer[begin + i]}, int{expected(i)}) << "byte " << i << " of " << count;
  };
  constexpr std::size_t kAround = 1 << 16;
  check_range(0, kAround, 1);
  check_range(count - std::min(count, kAround), count, 1);
  for (const int power : {30, 31})
    check_range((std::size_t{1} << power) - kAround, (std::size_t{1} << power) + kAround, 1);
  check_range(0, count, 4093);
}

inline void check_broadcast(Collectives& collectives, int rank) {
  Buffer buffer(kBytes);
  rank == 1 ? buffer.fill(1, 0, kBytes) : buffer.clear();
  collectives.broadcast({DataType::kUInt8, buffer.all().data(), kBytes}, 1);
  check(buffer, 0, kBytes, [](std::size_t i) { return byte_of(1, i); });
}

inline void check_allreduce(Collectives& collectives, int rank) {
  Buffer buffer(kBytes);
  buffer.fill(rank, 0, kBytes);
  collectives.allreduce({DataType::kUInt8, buffer.all().data(), kBytes}, ReduceOp::kSum);
  check(buffer, 0, kBytes,
        [](std::size_t i) { return static_cast<std::uint8_t>(byte_of(0, i) + byte_of(1, i)); });
}

/// Only one part exceeds 2^31 bytes.
inline void check_reduce_scatter(Collectives& collectives, int rank) {
  const std::vector<std::size_t> count_of = {5, kBytes};
  const std::size_t begin = rank == 0 ? 0 : 5;
  const std::size_t own = count_of[static_cast<std::size_t>(rank)];
  Buffer input(kBytes + 5), output(own);
  input.fill(rank, 0, kBytes + 5);
  output.clear();
  collectives.reduce_scatter(input.all().data(), DataType::kUInt8, count_of, output.all().data(),
                             ReduceOp::kSum);
  check(output, 0, own, [begin](std::size_t i) {
    return static_cast<std::uint8_t>(byte_of(0, begin + i) + byte_of(1, begin + i));
  });
}

/// Only one part exceeds 2^31 bytes.
inline void check_allgather(Collectives& collectives, int rank) {
  const std::vector<std::size_t> bytes_of = {5, kBytes};
  Buffer buffer(kBytes + 5);
  buffer.clear();
  const std::size_t begin = rank == 0 ? 0 : 5;
  const std::size_t own = bytes_of[static_cast<std::size_t>(rank)];
  buffer.fill(rank, begin, own);
  collectives.allgather(buffer.all().subspan(begin, own), bytes_of, buffer.all());
  check(buffer, 0, 5, [](std::size_t i) { return byte_of(0, i); });
  check(buffer, 5, kBytes, [](std::size_t i) { return byte_of(1, i); });
}

/// Only one block exceeds 2^31 bytes; the others are small.
inline void check_alltoall(Collectives& collectives, int rank) {
  const auto own = static_cast<std::size_t>(rank);
  const std::size_t bytes_of_pair[2][2] = {{5, kBytes}, {3, 7}};
  const std::vector<std::size_t> bytes_to(bytes_of_pair[own], bytes_of_pair[own] + 2);
  const std::vector<std::size_t> bytes_from = {bytes_of_pair[0][own], bytes_of_pair[1][own]};
  Buffer input(bytes_to[0] + bytes_to[1]), output(bytes_from[0] + bytes_from[1]);
  input.fill(rank * 2, 0, bytes_to[0]);
  input.fill(rank * 2 + 1, bytes_to[0], bytes_to[1]);
  output.clear();
  collectives.alltoall(input.all(), bytes_to, output.all(), bytes_from);
  check(output, 0, bytes_from[0], [&](std::size_t i) { return byte_of(rank, i); });
  check(output, bytes_from[0], bytes_from[1], [&](std::size_t i) { return byte_of(2 + rank, i); });
}

}  // namespace horo::collectives::large
