#include "collectives/device/fused_layout.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
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

// Checks that chunks cover the buffer and the tiles without gaps, and that each has the minimum
// size.
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

TEST(FusedLayout, ChunksTileBuffer) {
  const std::vector<std::size_t> sizes = {5, 0, 8192, 128, 100000, 1, 1, 1, 65536, 8193};
  for (const std::size_t chunk_bytes : {0, 1, 32768, 65536, 100000, 1 << 20, 1 << 30})
    for (const DataType wire : {DataType::kFloat32, DataType::kBFloat16})
      expect_tiled(FusedLayout(tensors_of(sizes), wire, chunk_bytes), chunk_bytes);
}

TEST(FusedLayout, ChunkSizeBoundsNumberOfChunks) {
  const auto tensors = tensors_of({20000, 20000});
  EXPECT_EQ(FusedLayout(tensors, DataType::kFloat32, 1 << 30).chunks().size(), 1u);
  EXPECT_EQ(FusedLayout(tensors, DataType::kFloat32, 0).chunks().size(), 6u);
}

TEST(FusedLayout, AlignsTensors) {
  const FusedLayout layout(tensors_of({1, 129, 128, 0, 5}), DataType::kFloat32, 0);
  for (const auto& [index, offset] : {std::pair(0, 0), {1, 128}, {2, 384}, {4, 512}})
    EXPECT_EQ(layout.offset_of(static_cast<std::size_t>(index)), static_cast<std::size_t>(offset));
  EXPECT_FALSE(layout.offset_of(3));
  std::vector<std::uint32_t> offsets;
  for (std::uint32_t t = 0; t < 4; ++t) offsets.push_back(layout.tables()[0].tensor[t].offset);
  EXPECT_EQ(offsets, (std::vector<std::uint32_t>{0, 1, 3, 4}));
  EXPECT_EQ(layout.buffer_count(), 5u * 128);
}

TEST(FusedLayout, EmptyLayoutHasNoChunks) {
  EXPECT_TRUE(FusedLayout({}, DataType::kFloat32, 100).chunks().empty());
  EXPECT_TRUE(FusedLayout(tensors_of({0, 0}), DataType::kFloat32, 100).chunks().empty());
}

TEST(FusedLayout, SplitsLargeTensorIntoEntries) {
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

TEST(FusedLayout, RejectsMixedTypes) {
  EXPECT_THROW(FusedLayout(tensors_of({3}, DataType::kInt32), DataType::kFloat32, 0),
               InvalidArgument);
  EXPECT_THROW(FusedLayout(tensors_of({3}, DataType::kFloat64), DataType::kBFloat16, 0),
               InvalidArgument);
  std::vector<TensorView> mixed = tensors_of({3});
  mixed.push_back(tensors_of({3}, DataType::kFloat64)[0]);
  EXPECT_THROW(FusedLayout(mixed, DataType::kFloat32, 0), InvalidArgument);
}

// Tensors at the given positions, in units of 4 bytes, of memory that is never accessed.
struct Placed {
  std::size_t at, count;
};
std::vector<TensorView> placed(const std::vector<Placed>& list) {
  std::vector<TensorView> tensors;
  for (const auto& [at, count] : list)
    tensors.emplace_back(reinterpret_cast<void*>(0x10000 + 4 * at), DataType::kFloat32,
                         Shape{count});
  return tensors;
}

// Returns "first-last@position*count" for each span. `of_ranks` has the tensors of each rank.
std::string spans_of(const std::vector<std::vector<Placed>>& of_ranks, std::size_t least_bytes) {
  std::vector<MemoryFacts> facts = memory_facts(placed(of_ranks[0]));
  for (const auto& list : of_ranks) {
    const std::vector<MemoryFacts> own = memory_facts(placed(list));
    for (std::size_t t = 0; t < own.size(); ++t)
      facts[t] = {std::min(facts[t].follows, own[t].follows),
                  std::min(facts[t].precedes, own[t].precedes),
                  std::min(facts[t].is_aligned, own[t].is_aligned)};
  }
  std::string text;
  for (const MemorySpan& span : memory_spans(placed(of_ranks[0]), facts, least_bytes))
    text += fmt::format("{}-{}@{}*{} ", span.first, span.last,
                        (reinterpret_cast<std::size_t>(span.data) - 0x10000) / 4, span.count);
  return text;
}

TEST(MemorySpans, JoinAdjacentTensorsInEitherOrder) {
  EXPECT_EQ(spans_of({{{0, 5}, {5, 1}, {6, 10}}}, SIZE_MAX), "0-3@0*16 ");
  EXPECT_EQ(spans_of({{{12, 10}, {11, 1}, {8, 3}}}, SIZE_MAX), "0-3@8*14 ");
  // A tensor without elements may have any address.
  EXPECT_EQ(spans_of({{{100, 0}, {0, 5}, {77, 0}, {5, 4}}}, SIZE_MAX), "1-4@0*9 ");
}

TEST(MemorySpans, EndAtGapsAndTurns) {
  EXPECT_EQ(spans_of({{{0, 5}, {6, 3}}}, 1), "0-1@0*5 ");  // the second is not aligned
  EXPECT_EQ(spans_of({{{0, 4}, {8, 3}}}, 1), "0-1@0*4 1-2@8*3 ");
  EXPECT_EQ(spans_of({{{8, 4}, {12, 4}, {4, 4}, {0, 4}}}, 1), "0-2@8*8 2-4@0*8 ");
  EXPECT_EQ(spans_of({{{0, 5}, {4, 5}}}, 1), "0-1@0*5 1-2@4*5 ");
}

TEST(MemorySpans, SkipSmallSpansUnlessOnlyOne) {
  EXPECT_EQ(spans_of({{{0, 4}, {8, 3}, {16, 100}}}, 400), "2-3@16*100 ");
  EXPECT_EQ(spans_of({{{0, 4}, {8, 3}, {16, 100}}}, 401), "");
  EXPECT_EQ(spans_of({{{0, 1}}}, SIZE_MAX), "0-1@0*1 ");
  EXPECT_EQ(spans_of({{{0, 0}}}, 0), "");
}

TEST(MemorySpans, UseFactsOfAllRanks) {
  const std::vector<Placed> joined = {{0, 4}, {4, 4}, {8, 200}},
                            apart = {{0, 4}, {8, 4}, {12, 200}},
                            crooked = {{0, 4}, {4, 4}, {9, 200}},
                            falling = {{208, 4}, {204, 4}, {4, 200}};
  EXPECT_EQ(spans_of({joined, joined}, 800), "0-3@0*208 ");
  EXPECT_EQ(spans_of({joined, apart}, 800), "1-3@4*204 ");
  EXPECT_EQ(spans_of({apart, joined}, 800), "1-3@8*204 ");
  EXPECT_EQ(spans_of({joined, crooked}, 800), "");
  EXPECT_EQ(spans_of({joined, falling}, 800), "2-3@8*200 ");
}

TEST(FusedLayout, SplitsSpansInPlaceAtTiles) {
  const auto tensors = placed({{0, 3}, {1000, 20000}, {21000, 10000}, {50000, 0}, {60001, 70}});
  const auto spans = memory_spans(tensors, memory_facts(tensors), 100000);
  const FusedLayout layout(tensors, DataType::kFloat32, 50000, spans);
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  for (const auto& [data, count] : layout.in_place())
    ranges.emplace_back((reinterpret_cast<std::size_t>(data) - 0x10000) / 4, count);
  EXPECT_EQ(ranges, (std::vector<std::pair<std::size_t, std::size_t>>{{1000, 16384},
                                                                      {17384, 30000 - 16384}}));
  ASSERT_EQ(layout.spans().size(), 1u);
  EXPECT_EQ(reinterpret_cast<std::size_t>(layout.spans()[0].data), 0x10000u + 4 * 1000);
  EXPECT_EQ(layout.spans()[0].count, 30000u);
  ASSERT_EQ(layout.tables().size(), 1u);
  EXPECT_EQ(layout.tables()[0].tensors, 2u);
  EXPECT_EQ(layout.buffer_count(), 2u * 128);
  EXPECT_EQ(layout.bytes(), 4u * 30073);
  expect_tiled(layout, 50000);
  EXPECT_EQ(FusedLayout(tensors, DataType::kFloat32, SIZE_MAX, spans).in_place().size(), 1u);
  EXPECT_THROW(FusedLayout(tensors, DataType::kFloat16, 0, spans), InvalidArgument);
}

}  // namespace
}  // namespace horo::collectives
