#include "collectives/device/fused_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "horo/base/error.h"

namespace horo::collectives {
namespace {

std::vector<TensorView> tensors_of(const std::vector<std::size_t>& sizes,
                                   DataType type = DataType::kFloat32) {
  std::vector<TensorView> tensors;
  for (const std::size_t size : sizes) tensors.emplace_back(nullptr, type, Shape{size});
  return tensors;
}

// Chunks follow each other without gap, in the buffer and in the tiles, and each is large enough.
void expect_tiled(const FusedLayout& layout, std::size_t chunk_bytes) {
  std::size_t offset = 0;
  std::vector<std::uint32_t> tiles(layout.tables().size(), 0);
  for (std::size_t c = 0; c < layout.chunks().size(); ++c) {
    const FusedLayout::Chunk& chunk = layout.chunks()[c];
    EXPECT_EQ(chunk.offset, offset);
    EXPECT_EQ(chunk.offset % TileTable::kAlignment, 0u);
    EXPECT_GT(chunk.count, 0u);
    EXPECT_EQ(chunk.first_tile, tiles[chunk.table]);
    EXPECT_LT(chunk.first_tile, chunk.last_tile);
    tiles[chunk.table] = chunk.last_tile;
    offset += chunk.count;
    const bool is_last_of_table =
        c + 1 == layout.chunks().size() || layout.chunks()[c + 1].table != chunk.table;
    if (!is_last_of_table) {
      EXPECT_GE(chunk.count * size_of(layout.wire()), chunk_bytes);
    }
  }
  EXPECT_EQ(offset, layout.buffer_count());
  for (std::size_t t = 0; t < tiles.size(); ++t) EXPECT_EQ(tiles[t], layout.tables()[t].tiles());
}

TEST(FusedLayout, ChunksTileTheBuffer) {
  const std::vector<std::size_t> sizes = {5, 0, 8192, 128, 100000, 1, 1, 1, 65536, 8193};
  for (const std::size_t chunk_bytes : {0, 1, 32768, 65536, 100000, 1 << 20, 1 << 30})
    for (const DataType wire : {DataType::kFloat32, DataType::kBFloat16})
      expect_tiled(FusedLayout(tensors_of(sizes), wire, chunk_bytes), chunk_bytes);
}

TEST(FusedLayout, OneChunkIfItIsLargeEnoughAndATileEachIfNot) {
  const auto tensors = tensors_of({20000, 20000});
  EXPECT_EQ(FusedLayout(tensors, DataType::kFloat32, 1 << 30).chunks().size(), 1u);
  EXPECT_EQ(FusedLayout(tensors, DataType::kFloat32, 0).chunks().size(), 6u);
}

TEST(FusedLayout, TensorsBeginAtMultiplesOfTheAlignment) {
  const FusedLayout layout(tensors_of({1, 129, 128, 5}), DataType::kFloat32, 0);
  std::vector<std::uint32_t> offsets;
  for (std::uint32_t t = 0; t < 4; ++t) offsets.push_back(layout.tables()[0].tensor[t].offset);
  EXPECT_EQ(offsets, (std::vector<std::uint32_t>{0, 1, 3, 4}));
  EXPECT_EQ(layout.buffer_count(), 5u * 128);
}

TEST(FusedLayout, NothingHasNoChunks) {
  EXPECT_TRUE(FusedLayout({}, DataType::kFloat32, 100).chunks().empty());
  EXPECT_TRUE(FusedLayout(tensors_of({0, 0}), DataType::kFloat32, 100).chunks().empty());
}

TEST(FusedLayout, ATensorTooLargeForAnEntryHasSeveral) {
  const std::size_t count = (std::size_t{1} << 32) + 5;
  const FusedLayout layout(tensors_of({count}, DataType::kInt8), DataType::kInt8, 1 << 30);
  const TileTable& table = layout.tables()[0];
  ASSERT_EQ(table.tensors, 3u);
  std::size_t sum = 0;
  for (std::uint32_t t = 0; t < 3; ++t) {
    EXPECT_EQ(reinterpret_cast<std::size_t>(table.tensor[t].data), sum);
    sum += table.tensor[t].count;
  }
  EXPECT_EQ(sum, count);
  expect_tiled(layout, 1 << 30);
}

TEST(FusedLayout, TypesThatDoNotGoTogetherAreRefused) {
  EXPECT_THROW(FusedLayout(tensors_of({3}, DataType::kInt32), DataType::kFloat32, 0),
               InvalidArgument);
  EXPECT_THROW(FusedLayout(tensors_of({3}, DataType::kFloat64), DataType::kBFloat16, 0),
               InvalidArgument);
  std::vector<TensorView> mixed = tensors_of({3});
  mixed.push_back(tensors_of({3}, DataType::kFloat64)[0]);
  EXPECT_THROW(FusedLayout(mixed, DataType::kFloat32, 0), InvalidArgument);
}

}  // namespace
}  // namespace horo::collectives
