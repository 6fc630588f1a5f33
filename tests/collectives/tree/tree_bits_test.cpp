// Exchange, doubling and halving give the same bits: those of a tree computed in one place.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "collectives/reduce/kernels.h"
#include "collectives/tree/tree_allreduce.h"
#include "tests/collectives/contract/pieced_array.h"
#include "tests/collectives/contract/thread_ranks.h"
#include "tests/support/sanitizer.h"

namespace horo::collectives {
namespace {

using Bytes = std::vector<std::byte>;
using TreeAllreduce = void (*)(PointToPoint&, const std::vector<std::string>&,
                               const ScatteredBuffer&, ReduceOp, TreeStaging&);

constexpr DataType kTypes[] = {DataType::kFloat32,  DataType::kFloat64, DataType::kFloat16,
                               DataType::kBFloat16, DataType::kInt8,    DataType::kUInt8,
                               DataType::kInt32,    DataType::kInt64};
constexpr ReduceOp kOps[] = {ReduceOp::kAverage, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kProduct};

template <typename T>
void fill_as(std::byte* to, std::size_t count, std::mt19937_64& random) {
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    if constexpr (std::is_integral_v<T>)
      value = static_cast<T>(random());
    else  // of very different sizes, so that every order rounds differently; now and then -0
      value = random() % 50 == 0
                  ? static_cast<T>(-0.0f)
                  : static_cast<T>(std::ldexp(static_cast<float>(random() % 20011) - 10000.0f,
                                              -static_cast<int>(random() % 20)));
    std::memcpy(to + i * sizeof(T), &value, sizeof value);
  }
}

// Values that differ by rank and index; every sum of floats is rounded.
Bytes values(DataType type, int rank, std::size_t count) {
  Bytes bytes(count * size_of(type));
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) * 1009 + count);
  switch (type) {
    case DataType::kFloat32:
      fill_as<float>(bytes.data(), count, random);
      break;
    case DataType::kFloat64:
      fill_as<double>(bytes.data(), count, random);
      break;
    case DataType::kFloat16:
      fill_as<Float16>(bytes.data(), count, random);
      break;
    case DataType::kBFloat16:
      fill_as<BFloat16>(bytes.data(), count, random);
      break;
    default:
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  }
  return bytes;
}

// The tree, recursively: ranks [first, first + width) of the core, each with its extra rank.
Bytes subtree(DataType type, ReduceOp op, int size, int core, int first, int width,
              std::size_t count) {
  const auto combined = [&](const Bytes& low, const Bytes& high, bool is_last) {
    const std::byte* sources[] = {low.data(), high.data()};
    Bytes out(low.size());
    reduce(type, op == ReduceOp::kAverage && !is_last ? ReduceOp::kSum : op, sources, count,
           static_cast<std::size_t>(size), out.data(), Stores::kPlain);
    return out;
  };
  if (width == 1) {
    const Bytes own = values(type, first, count);
    return first + core < size ? combined(own, values(type, first + core, count), false) : own;
  }
  return combined(subtree(type, op, size, core, first, width / 2, count),
                  subtree(type, op, size, core, first + width / 2, width / 2, count),
                  width == core);
}

Bytes expected(DataType type, ReduceOp op, int size, std::size_t count) {
  int core = 1;
  while (2 * core <= size) core *= 2;
  return subtree(type, op, size, core, 0, core, count);
}

// With `is_cut`, the buffer has pieces of 1, 2, ... elements.
ScatteredBuffer buffer_over(Bytes& bytes, DataType type, bool is_cut) {
  const std::size_t width = size_of(type);
  const std::size_t count = bytes.size() / width;
  ScatteredBuffer buffer(type);
  for (std::size_t at = 0, next = 1; at < count; at += next, next = next * 3 % 61 + 1)
    buffer.add(bytes.data() + at * width, next = is_cut ? std::min(next, count - at) : count);
  return buffer;
}

class TreeBits : public testing::TestWithParam<int> {
 protected:
  void check(const std::vector<std::size_t>& counts) {
    const int ranks = GetParam();
    std::vector<std::string> names;
    for (int r = 0; r < ranks; ++r) names.push_back("rank " + std::to_string(r));
    const std::pair<const char*, TreeAllreduce> forms[] = {
        {"exchange", exchange_allreduce},
        {"doubling", recursive_doubling_allreduce},
        {"halving", halving_doubling_allreduce}};
    for (const DataType type : kTypes)
      for (const ReduceOp op : kOps) {
        if (!is_tested(type) || !is_tested(op)) continue;
        std::vector<Bytes> results;
        for (const std::size_t count : counts) results.push_back(expected(type, op, ranks, count));
        contract::run_thread_ranks(ranks, {}, [&](Transport& transport, int rank) {
          const auto peers = transport.make_point_to_point();
          TreeStaging staging;
          for (std::size_t c = 0; c < counts.size(); ++c)
            for (const auto& [name, allreduce] : forms) {
              Bytes own = values(type, rank, counts[c]);
              allreduce(*peers, names, buffer_over(own, type, c % 2 == 1), op, staging);
              ASSERT_TRUE(own == results[c])
                  << name << " " << name_of(type) << " " << name_of(op) << ", " << counts[c]
                  << " elements, rank " << rank << " of " << ranks;
            }
        });
      }
  }
};

// Under sanitizers, which are twenty times slower, fewer sizes suffice to detect races and invalid
// accesses.
constexpr std::size_t kStride = kHasSanitizer ? 19 : 1;

TEST_P(TreeBits, AgreeForAllSmallSizes) {
  std::vector<std::size_t> counts;
  for (std::size_t count = 0; count <= 257; count += kStride) counts.push_back(count);
  check(counts);
}

TEST_P(TreeBits, AgreeForLargerOddSizes) { check({1023, 4097, 10007, 33331}); }

INSTANTIATE_TEST_SUITE_P(Ranks, TreeBits, testing::Values(1, 2, 3, 4, 5, 7, 8));

}  // namespace
}  // namespace horo::collectives
