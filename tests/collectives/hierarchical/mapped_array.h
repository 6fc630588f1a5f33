#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "collectives/buffers.h"
#include "collectives/shared_region.h"
#include "tests/collectives/hierarchical/pretended_nodes.h"

namespace horo::collectives::contract {

/// An array in pieces in the memory of each rank of a node, with different distances on each rank.
/// Guard bytes surround the pieces.
template <typename T>
class MappedArray {
 public:
  MappedArray(const NodeRank& rank, const NodeBlock& block, std::size_t count, bool is_in_pieces)
      : block_(block),
        buffer_(data_type_of<T>, rank.topology.local_size, rank.topology.local_rank),
        is_payload_(block.own().size(), false) {
    const std::vector<int> ranks = rank.topology.ranks_of(rank.topology.node);
    std::vector<std::size_t> used(ranks.size(), 0);
    std::mt19937 random(static_cast<unsigned>(count));
    for (std::size_t at = 0; at < count;) {
      const std::size_t n =
          is_in_pieces ? std::min<std::size_t>(random() % 700, count - at) : count;
      std::vector<std::byte*> addresses;
      for (std::size_t l = 0; l < ranks.size(); ++l) {
        used[l] += (l * 3 + 1) * sizeof(T);
        addresses.push_back(block.at(ranks[l], used[l]));
        if (ranks[l] == rank.topology.rank)
          std::fill_n(is_payload_.begin() + static_cast<std::ptrdiff_t>(used[l]), n * sizeof(T),
                      true);
        used[l] += n * sizeof(T);
      }
      buffer_.add(addresses, n);
      at += n;
    }
    std::memset(block.own().data(), int(kGuard), block.own().size());
  }

  const MappedBuffer& buffer() const { return buffer_; }
  void set(const std::function<T(std::size_t)>& value) {
    for_each([&](std::size_t i, std::byte* data) {
      const T x = value(i);
      std::memcpy(data, &x, sizeof x);
    });
  }
  std::vector<T> values() const {
    std::vector<T> result(buffer_.own().count());
    for_each(
        [&](std::size_t i, const std::byte* data) { std::memcpy(&result[i], data, sizeof(T)); });
    return result;
  }
  void expect_guards_intact() const {
    for (std::size_t b = 0; b < is_payload_.size(); ++b)
      ASSERT_TRUE(is_payload_[b] || block_.own()[b] == kGuard) << "byte " << b;
  }

 private:
  static constexpr std::byte kGuard{0x5a};

  template <typename Function>
  void for_each(Function&& function) const {
    buffer_.own().for_each_span(0, buffer_.own().count(),
                                [&](std::byte* data, std::size_t first, std::size_t n) {
                                  for (std::size_t i = 0; i < n; ++i)
                                    function(first + i, data + i * sizeof(T));
                                });
  }

  const NodeBlock& block_;
  MappedBuffer buffer_;
  std::vector<bool> is_payload_;
};

}  // namespace horo::collectives::contract
