#include "collectives/mpi/message_pieces.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace horo::collectives {
namespace {

using Pieces = std::vector<std::pair<std::size_t, int>>;

Pieces pieces_of(std::size_t total, std::size_t largest) {
  Pieces pieces;
  for_each_piece(total, largest,
                 [&](std::size_t offset, int count) { pieces.emplace_back(offset, count); });
  return pieces;
}

TEST(MessagePieces, CoverEveryTotal) {
  EXPECT_EQ(pieces_of(0, 10), (Pieces{{0, 0}}));
  EXPECT_EQ(pieces_of(9, 10), (Pieces{{0, 9}}));
  EXPECT_EQ(pieces_of(10, 10), (Pieces{{0, 10}}));
  EXPECT_EQ(pieces_of(25, 10), (Pieces{{0, 10}, {10, 10}, {20, 5}}));
}

TEST(MessagePieces, FitIntoInt) {
  const std::size_t boundary = std::size_t{1} << 31;
  for (const std::size_t total : {boundary - 1, boundary, boundary + 1, 3 * boundary + 5}) {
    std::size_t next = 0;
    for (const auto& [offset, count] : pieces_of(total, kLargestMpiMessage)) {
      EXPECT_EQ(offset, next);
      EXPECT_GT(count, 0);
      next += static_cast<std::size_t>(count);
    }
    EXPECT_EQ(next, total);
  }
}

}  // namespace
}  // namespace horo::collectives
