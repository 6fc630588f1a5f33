#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "horo/base/float16.h"
#include "tests/collectives/reduce/kernel_tables.h"

namespace horo::collectives {
namespace {

template <typename Half>
void expect_widened_exactly(const KernelTable& table, int half) {
  std::vector<std::uint16_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  std::vector<float> values(bits.size());
  table.widen[half](reinterpret_cast<std::byte*>(values.data()),
                    reinterpret_cast<const std::byte*>(bits.data()), bits.size());
  for (std::size_t i = 0; i < bits.size(); ++i) {
    Half expected;
    expected.bits = bits[i];
    if (std::isnan(static_cast<float>(expected))) {
      ASSERT_TRUE(std::isnan(values[i])) << i;
    } else {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]),
                std::bit_cast<std::uint32_t>(static_cast<float>(expected)))
          << table.instruction_set << " " << i;
    }
  }
}

// Every 65521st float, and the floats next to the midpoint of two neighbours of the 16-bit type.
std::vector<float> many_floats() {
  std::vector<float> values;
  for (std::uint64_t bits = 0; bits <= 0xffffffffu; bits += 65521)
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  for (std::uint32_t upper = 0; upper < 0x10000u; upper += 7)
    for (const std::uint32_t lower : {0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u})
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
  return values;
}

template <typename Half>
void expect_rounded_to_nearest(const KernelTable& table, int half) {
  const std::vector<float> values = many_floats();
  std::vector<std::uint16_t> bits(values.size());
  table.narrow[half](reinterpret_cast<std::byte*>(bits.data()),
                     reinterpret_cast<const std::byte*>(values.data()), values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(bits[i], Half(values[i]).bits)
        << table.instruction_set << " " << values[i] << " index " << i;
}

TEST(ConversionKernels, WidenEveryPatternExactly) {
  for (const KernelTable* table : runnable_tables()) {
    expect_widened_exactly<Float16>(*table, 0);
    expect_widened_exactly<BFloat16>(*table, 1);
  }
}

TEST(ConversionKernels, RoundToNearestEven) {
  for (const KernelTable* table : runnable_tables()) {
    expect_rounded_to_nearest<Float16>(*table, 0);
    expect_rounded_to_nearest<BFloat16>(*table, 1);
  }
}

TEST(ConversionKernels, WriteOnlyTheirOutput) {
  std::vector<float> values(300);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.37f - 40;
  for (const KernelTable* table : runnable_tables())
    for (std::size_t count = 0; count <= 257; ++count) {
      const std::size_t offset = 64 + count % 7;
      std::vector<std::byte> narrowed(2 * 300 + 128, std::byte{0x5a});
      table->narrow[1](narrowed.data() + offset, reinterpret_cast<std::byte*>(values.data()),
                       count);
      std::vector<std::byte> widened(4 * 300 + 128, std::byte{0x5a});
      table->widen[1](widened.data() + offset, narrowed.data() + offset, count);
      for (std::size_t b = 0; b < narrowed.size(); ++b) {
        ASSERT_TRUE((b >= offset && b < offset + 2 * count) || narrowed[b] == std::byte{0x5a}) << b;
      }
      for (std::size_t b = 0; b < widened.size(); ++b) {
        ASSERT_TRUE((b >= offset && b < offset + 4 * count) || widened[b] == std::byte{0x5a}) << b;
      }
      for (std::size_t i = 0; i < count; ++i) {
        float value;
        std::memcpy(&value, widened.data() + offset + 4 * i, 4);
        ASSERT_EQ(value, static_cast<float>(BFloat16(values[i]))) << i << " of " << count;
      }
    }
}

}  // namespace
}  // namespace horo::collectives
