#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>

#include "collectives/adasum/adasum.h"

namespace horo::collectives {
namespace {

TEST(TensorChunks, AreOrderedByRankThenTensor) {
  std::vector<std::int32_t> first{1, 2, 3, 4, 5}, second{11}, third{21, 22, 23};
  ScatteredBuffer tensors(DataType::kInt32);
  for (auto* tensor : {&first, &second, &third}) tensors.add(tensor->data(), tensor->size());
  const TensorChunks chunks(tensors, 2);
  EXPECT_EQ(chunks.count_of(0), 6u);
  EXPECT_EQ(chunks.count_of(1), 3u);
  EXPECT_EQ(chunks.of_rank(1)[1].count(), 0u);
  EXPECT_EQ(chunks.of_rank(1)[2].begin, 2u);

  std::vector<std::int32_t> packed(9);
  chunks.pack(tensors, reinterpret_cast<std::byte*>(packed.data()));
  EXPECT_EQ(packed, (std::vector<std::int32_t>{1, 2, 3, 11, 21, 22, 4, 5, 23}));
  for (std::int32_t& value : packed) value = -value;
  chunks.unpack(reinterpret_cast<const std::byte*>(packed.data()), tensors);
  EXPECT_EQ(first, (std::vector<std::int32_t>{-1, -2, -3, -4, -5}));
  EXPECT_EQ(second, (std::vector<std::int32_t>{-11}));
  EXPECT_EQ(third, (std::vector<std::int32_t>{-21, -22, -23}));
}

TEST(TensorChunks, DoNotDependOnOtherTensors) {
  std::vector<float> memory(1000);
  for (int ranks = 1; ranks <= 9; ++ranks) {
    ScatteredBuffer alone(DataType::kFloat32, memory.data() + 300, 77);
    ScatteredBuffer among(DataType::kFloat32, memory.data(), 300);  // adjacent to the next one
    among.add(memory.data() + 300, 77);
    among.add(memory.data() + 377, 400);
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(TensorChunks(alone, ranks).of_rank(rank)[0].count(),
                TensorChunks(among, ranks).of_rank(rank)[1].count());
  }
}

TEST(TensorChunks, AreEmptyWithoutTensors) {
  EXPECT_EQ(TensorChunks(ScatteredBuffer(DataType::kFloat32), 3).count_of(2), 0u);
}

}  // namespace
}  // namespace horo::collectives
