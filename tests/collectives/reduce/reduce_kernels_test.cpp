#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "collectives/reduce/kernels.h"
#include "tests/collectives/reduce/kernel_tables.h"
#include "tests/collectives/reduce/scalar_reference.h"

namespace horo::collectives {
namespace {

constexpr std::size_t kLongest = 257;
constexpr std::byte kGuard{0x5a};

// A random value. One in four floats is special: a zero, a subnormal, an infinity or an extreme,
// but no NaN.
template <Element T>
T random_value(std::mt19937& random) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>((std::uint64_t(random()) << 32) | random());
  } else {
    const double specials[] = {0.0,
                               -0.0,
                               1e-45,
                               -3e-45,
                               6e-8,
                               -3e-5,
                               1e-39,
                               65504,
                               -65520,
                               3e38,
                               std::numeric_limits<double>::infinity(),
                               4.9e-324};
    double value = std::ldexp(double(random()) / 4294967296.0 - 0.5, int(random() % 24) - 12);
    if (random() % 4 == 0) value = specials[random() % std::size(specials)];
    if constexpr (sizeof(T) == 8)
      return value;
    else
      return T(static_cast<float>(value));
  }
}

template <Element T>
bool is_nan(T value) {
  if constexpr (std::is_integral_v<T>)
    return false;
  else if constexpr (sizeof(T) == 8)
    return std::isnan(value);
  else
    return std::isnan(static_cast<float>(value));
}

// Sources at odd addresses inside larger blocks. Guard bytes surround the outputs.
template <Element T>
class Trial {
 public:
  Trial(std::size_t source_count, std::mt19937& random) : memory_(source_count) {
    for (auto& block : memory_) {
      block.resize(kLongest * sizeof(T) + 64);
      for (std::size_t i = 0; i < kLongest; ++i) {
        const T value = random_value<T>(random);
        std::memcpy(block.data() + i * sizeof(T), &value, sizeof value);
      }
    }
  }

  void run(const KernelTable& table, ReduceOp op, std::size_t count, std::size_t divisor,
           std::size_t offset, bool is_streaming, std::size_t out_count) {
    std::vector<std::vector<std::byte>> shifted;
    std::vector<const std::byte*> sources;
    for (std::size_t s = 0; s < memory_.size(); ++s) {
      const std::size_t shift = (offset + 3 * s) % 64;
      shifted.emplace_back(count * sizeof(T) + 128);
      std::memcpy(shifted[s].data() + shift, memory_[s].data(), count * sizeof(T));
      sources.push_back(shifted[s].data() + shift);
    }
    alignas(64) std::array<std::array<std::byte, kLongest * 8 + 192>, 3> results;
    const std::size_t begin_of[] = {64 + offset, 64 + 5, 64};
    std::vector<std::byte*> outs;
    for (std::size_t o = 0; o < out_count; ++o) {
      results[o].fill(kGuard);
      outs.push_back(results[o].data() + begin_of[o]);
    }
    table.reduce[int(data_type_of<T>)][int(op)](
        {sources.data(), sources.size(), count, divisor, outs.data(), outs.size(), is_streaming});
    for (std::size_t o = 0; o < out_count; ++o) check(results[o], begin_of[o], count, op, divisor);
  }

 private:
  template <typename Array>
  void check(const Array& out, std::size_t begin, std::size_t count, ReduceOp op,
             std::size_t divisor) {
    std::vector<T> values(memory_.size());
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t s = 0; s < values.size(); ++s)
        std::memcpy(&values[s], memory_[s].data() + i * sizeof(T), sizeof(T));
      const T expected = scalar_reduce(op, values, divisor);
      T actual;
      std::memcpy(&actual, out.data() + begin + i * sizeof(T), sizeof actual);
      if (is_nan(expected) && is_nan(actual)) continue;
      ASSERT_EQ(std::memcmp(&expected, &actual, sizeof(T)), 0)
          << name_of(data_type_of<T>) << " " << name_of(op) << " element " << i << " of " << count;
    }
    for (std::size_t i = 0; i < out.size(); ++i)
      if (i < begin || i >= begin + count * sizeof(T)) {
        ASSERT_EQ(out[i], kGuard) << "byte " << i;
      }
  }

  std::vector<std::vector<std::byte>> memory_;
};

template <typename T>
class ReduceKernels : public testing::Test {};
using AllTypes = testing::Types<float, double, Float16, BFloat16, std::int8_t, std::uint8_t,
                                std::int16_t, std::uint16_t, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(ReduceKernels, AllTypes);

TYPED_TEST(ReduceKernels, MatchReferenceForEveryLength) {
  std::mt19937 random(1);
  for (std::size_t sources = 1; sources <= 7; ++sources) {
    Trial<TypeParam> trial(sources, random);
    for (const KernelTable* table : runnable_tables())
      for (int op = 0; op < kElementwiseOpCount; ++op)
        for (std::size_t count = 0; count <= kLongest; count += sources == 2 ? 1 : 1 + count / 5) {
          trial.run(*table, ReduceOp(op), count, 3, 0, count % 2 == 0, 1 + count % 3);
          if (this->HasFatalFailure()) FAIL() << table->instruction_set << " sources " << sources;
        }
  }
}

TEST(ReduceKernelsOfBool, ComputeOrAndAnd) {
  const std::vector<std::byte> a = {std::byte{0}, std::byte{0}, std::byte{1}, std::byte{1}};
  const std::vector<std::byte> b = {std::byte{0}, std::byte{1}, std::byte{0}, std::byte{1}};
  const std::vector<std::byte> either = {a[0], b[1], a[2], a[3]};
  const std::vector<std::byte> both = {a[0], a[1], b[2], a[3]};
  for (const KernelTable* table : runnable_tables())
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProduct}) {
      std::vector<std::byte> out(a.size());
      const std::byte* sources[] = {a.data(), b.data()};
      std::byte* outs[] = {out.data()};
      table->reduce[static_cast<int>(DataType::kBool)][static_cast<int>(op)](
          {sources, 2, a.size(), 1, outs, 1, false});
      EXPECT_EQ(out, op == ReduceOp::kSum || op == ReduceOp::kMax ? either : both) << name_of(op);
    }
}

TYPED_TEST(ReduceKernels, MatchReferenceForEveryAlignment) {
  std::mt19937 random(2);
  for (const std::size_t sources : {2, 3, 4, 9}) {
    Trial<TypeParam> trial(sources, random);
    for (const KernelTable* table : runnable_tables())
      for (std::size_t offset = 0; offset < 64; ++offset)
        for (const bool is_streaming : {false, true}) {
          trial.run(*table, ReduceOp::kSum, kLongest - offset, 1, offset, is_streaming,
                    1 + offset % 3);
          trial.run(*table, ReduceOp::kAverage, 67, 200, offset, is_streaming, 1);
          if (this->HasFatalFailure()) FAIL() << table->instruction_set << " offset " << offset;
        }
  }
}

TYPED_TEST(ReduceKernels, SumInPlaceOfAnySource) {
  std::mt19937 random(3);
  for (const std::size_t place : {0, 1, 2})
    for (const bool is_streaming : {false, true}) {
      std::vector<std::vector<TypeParam>> sources(3, std::vector<TypeParam>(kLongest));
      for (auto& source : sources)
        for (auto& value : source) value = random_value<TypeParam>(random);
      const auto before = sources;
      std::vector<const std::byte*> pointers;
      for (auto& source : sources) pointers.push_back(reinterpret_cast<std::byte*>(source.data()));
      reduce(data_type_of<TypeParam>, ReduceOp::kSum, pointers, kLongest, 1,
             reinterpret_cast<std::byte*>(sources[place].data()),
             is_streaming ? Stores::kStreaming : Stores::kPlain);
      for (std::size_t i = 0; i < kLongest; ++i) {
        const TypeParam expected =
            scalar_reduce<TypeParam>(ReduceOp::kSum, {before[0][i], before[1][i], before[2][i]}, 1);
        if (is_nan(expected) && is_nan(sources[place][i])) continue;
        ASSERT_EQ(std::memcmp(&expected, &sources[place][i], sizeof expected), 0)
            << "element " << i;
      }
    }
}

// Checks that every bit pattern of a 16-bit float is preserved, except that NaN becomes quiet, as
// in the conversions of horo/base/float16.h.
template <typename Half>
void expect_all_patterns_survive() {
  std::vector<Half> values(65536), out(65536);
  for (std::size_t i = 0; i < values.size(); ++i) values[i].bits = static_cast<std::uint16_t>(i);
  const std::byte* source = reinterpret_cast<std::byte*>(values.data());
  std::byte* const to = reinterpret_cast<std::byte*>(out.data());
  for (const KernelTable* table : runnable_tables()) {
    table->reduce[int(data_type_of<Half>)][int(ReduceOp::kSum)](
        {&source, 1, values.size(), 1, &to, 1, false});
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(out[i].bits, Half(static_cast<float>(values[i])).bits)
          << table->instruction_set << " " << i;
  }
}

TEST(ReduceKernels16Bit, PreserveEveryBitPattern) {
  expect_all_patterns_survive<Float16>();
  expect_all_patterns_survive<BFloat16>();
}

TEST(ReduceKernels16Bit, RoundOnceAfterLastSource) {
  // 1 + 2^-8 is a tie that rounds to 1 in bfloat16. Only the whole sum, 1 + 2^-7, is representable.
  std::vector<BFloat16> ones(40, BFloat16(1.0f)), small(40, BFloat16(0x1p-8f)), out(40);
  const std::byte* sources[] = {reinterpret_cast<std::byte*>(ones.data()),
                                reinterpret_cast<std::byte*>(small.data()),
                                reinterpret_cast<std::byte*>(small.data())};
  reduce(DataType::kBFloat16, ReduceOp::kSum, sources, 40, 1,
         reinterpret_cast<std::byte*>(out.data()), Stores::kPlain);
  for (const BFloat16 value : out) EXPECT_EQ(static_cast<float>(value), 1.0f + 0x1p-7f);
}

TEST(ReduceKernelsNaN, PropagatesIndependentlyOfSplit) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> a(100, 1.0f), b(100, 2.0f), whole(100), pieces(100);
  for (std::size_t i = 0; i < 100; i += 3) a[i] = std::bit_cast<float>(0x7fc00000u + unsigned(i));
  for (std::size_t i = 0; i < 100; i += 2) b[i] = i % 4 == 0 ? -nan : -infinity;
  const auto sum = [&](std::size_t begin, std::size_t count, std::vector<float>& out) {
    const std::byte* sources[] = {reinterpret_cast<std::byte*>(&a[begin]),
                                  reinterpret_cast<std::byte*>(&b[begin])};
    reduce(DataType::kFloat32, ReduceOp::kSum, sources, count, 1,
           reinterpret_cast<std::byte*>(&out[begin]), Stores::kPlain);
  };
  sum(0, 100, whole);
  for (std::size_t i = 0; i < 100; ++i) sum(i, 1, pieces);
  EXPECT_EQ(std::memcmp(whole.data(), pieces.data(), 400), 0);
  for (std::size_t i = 0; i < 100; ++i)
    EXPECT_EQ(std::isnan(whole[i]), i % 3 == 0 || i % 4 == 0) << i;
}

}  // namespace
}  // namespace horo::collectives
