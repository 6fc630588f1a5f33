#include "horo/coordinator/device_layouts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace horo::coordinator {
namespace {

using collectives::FusedLayout;
using collectives::TileTable;

constexpr std::size_t kBuffer = 8192, kChunk = 4096;

// Memory that is only addressed.
std::byte* at(std::size_t offset) {
  return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 20) + offset;
}

TensorView floats(std::size_t offset, std::size_t count) {
  return {at(offset), DataType::kFloat32, Shape{count}};
}

// What a rank needs to take part, apart from its addresses.
std::string shape_of(const DeviceLayouts::Layouts& layouts) {
  std::string text;
  for (const FusedLayout& layout : layouts) {
    text += std::string(name_of(layout.type())) + ":";
    for (const auto& span : layout.spans()) text += " span " + std::to_string(span.count);
    for (const auto& chunk : layout.chunks()) text += " chunk " + std::to_string(chunk.count);
    text += ";";
  }
  return text;
}

TEST(DeviceLayouts, LargeAndOnlyTensorsStayInPlace) {
  DeviceLayouts layouts(kBuffer, kChunk);
  EXPECT_EQ(
      shape_of(layouts.of(std::vector{floats(0, 1024), floats(9000, 1023), floats(20000, 3)})),
      "float32: span 1024;float32: chunk 1024 chunk 128;");
  EXPECT_EQ(shape_of(layouts.of(std::vector{floats(0, 3)})), "float32: span 3;");
  EXPECT_EQ(shape_of(layouts.of(std::vector{
                floats(0, 3), TensorView(at(100), DataType::kInt32, Shape{2}), floats(200, 0)})),
            "float32: span 3;int32: span 2;");
  EXPECT_EQ(shape_of(layouts.of(std::vector{floats(0, 1000000)})), "float32: span 1000000;");
  EXPECT_EQ(shape_of(layouts.of(std::vector{floats(0, 0), floats(0, 0)})), "float32:;");
}

TEST(DeviceLayouts, TensorsThatFillTheBufferStayInPlace) {
  DeviceLayouts layouts(kBuffer, std::size_t{8} << 20);
  EXPECT_EQ(
      shape_of(layouts.of(std::vector{floats(0, 2048), floats(10000, 2047), floats(20000, 2)})),
      "float32: span 2048;float32: chunk 2048;float32: chunk 128;");
}

// Addresses differ between ranks. In-place layouts must not depend on them, even if a tensor does
// not start at a multiple of 16 bytes or follows another one in memory.
TEST(DeviceLayouts, DependOnSizesOnly) {
  DeviceLayouts layouts(kBuffer, kChunk);
  const std::string apart =
      shape_of(layouts.of(std::vector{floats(0, 2000), floats(16384, 7), floats(32768, 5)}));
  EXPECT_EQ(shape_of(layouts.of(std::vector{floats(4, 2000), floats(8004, 7), floats(8032, 5)})),
            apart);
}

// Every element is in one span or in one table entry, and no layout exceeds the buffer.
TEST(DeviceLayouts, ContainEveryElementOnce) {
  DeviceLayouts layouts(kBuffer, kChunk);
  for (const std::size_t step : {1, 127, 500, 1000, 1500}) {
    std::vector<TensorView> tensors;
    std::size_t elements = 0;
    for (std::size_t t = 0; t < 20; ++t) {
      tensors.push_back(floats(t << 16, (t * step) % 1777));
      elements += tensors.back().count();
    }
    std::size_t found = 0;
    for (const FusedLayout& layout : layouts.of(tensors)) {
      EXPECT_LE(layout.buffer_bytes(), kBuffer);
      for (const auto& span : layout.spans()) found += span.count;
      for (const TileTable& table : layout.tables())
        for (std::uint32_t t = 0; t < table.tensors; ++t) found += table.tensor[t].count;
    }
    EXPECT_EQ(found, elements) << "step " << step;
  }
}

TEST(DeviceLayouts, RepeatedListsComeFromTheCache) {
  DeviceLayouts layouts(kBuffer, kChunk);
  const std::vector<TensorView> first{floats(0, 10), floats(100, 20)}, second{floats(0, 30)};
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(shape_of(layouts.of(first)), "float32: chunk 256;");
    EXPECT_EQ(shape_of(layouts.of(second)), "float32: span 30;");
  }
  EXPECT_EQ(layouts.misses(), 2u);
}

// An address may be reused for a tensor of another type or size, and the parts of a list may move
// or change their order.
TEST(DeviceLayouts, ReusedAddressesAreNotConfused) {
  DeviceLayouts layouts(kBuffer, kChunk);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(shape_of(layouts.of(std::vector{floats(0, 10)})), "float32: span 10;");
    EXPECT_EQ(shape_of(layouts.of(std::vector{floats(0, 11)})), "float32: span 11;");
    EXPECT_EQ(shape_of(layouts.of(std::vector{TensorView(at(0), DataType::kInt32, Shape{10})})),
              "int32: span 10;");
    EXPECT_EQ(layouts.of(std::vector{floats(64, 10)}).front().spans().front().data, at(64));
    const auto first_of = [&](std::vector<TensorView> tensors) {
      return layouts.of(tensors).front().tables().front().tensor[0].data;
    };
    EXPECT_EQ(first_of({floats(0, 10), floats(400, 10)}), at(0));
    EXPECT_EQ(first_of({floats(400, 10), floats(0, 10)}), at(400));
  }
  EXPECT_EQ(layouts.misses(), 6u);
}

TEST(DeviceLayouts, CacheIsBoundedAndKeepsRecentLists) {
  constexpr std::size_t kMost = 5 * sizeof(TileTable);
  DeviceLayouts layouts(kBuffer, kChunk, kMost);
  const auto list = [](std::size_t i) {
    return std::vector{floats(i * 4096, 10), floats(i * 4096 + 2048, 20)};
  };
  for (std::size_t i = 0; i < 100; ++i) {
    layouts.of(list(0));
    layouts.of(list(i));
    EXPECT_LE(layouts.cached_bytes(), kMost);
  }
  EXPECT_EQ(layouts.misses(), 100u) << "the list of every round was evicted";
  layouts.of(list(50));
  EXPECT_EQ(layouts.misses(), 101u);

  // A list that exceeds the limit replaces all others.
  std::vector<TensorView> many;
  for (std::size_t t = 0; t < 6 * TileTable::kMaxTensors; ++t) many.push_back(floats(t * 16, 1));
  EXPECT_GT(layouts.of(many).size(), 1u);
  layouts.of(list(0));
  EXPECT_EQ(layouts.misses(), 103u);
  EXPECT_LE(layouts.cached_bytes(), kMost);
}

}  // namespace
}  // namespace horo::coordinator
