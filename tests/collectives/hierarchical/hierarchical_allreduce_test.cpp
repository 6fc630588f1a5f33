#include <gtest/gtest.h>

#include <cmath>

#include "collectives/hierarchical/hierarchical_reductions.h"
#include "tests/collectives/contract/contract_values.h"
#include "tests/collectives/contract/pieced_array.h"
#include "tests/collectives/hierarchical/pretended_nodes.h"

namespace horo::collectives {
namespace {

using contract::NodeRank;

constexpr std::size_t kBlockBytes = 4096;
constexpr HierarchicalCollectives::Options kOptions{
    .segment_bytes = 256,
    .block_bytes = kBlockBytes,
    .allreduce = {.setting = MessageAllreduce::kRing}};

// What each rank of a job ends with, from value(rank, i).
template <typename T>
std::vector<std::vector<T>> run(const std::string& nodes, std::size_t count, ReduceOp op,
                                std::optional<DataType> wire, std::uint64_t seed,
                                const std::function<T(int, std::size_t)>& value,
                                std::vector<WireReport>* reports = nullptr) {
  InProcessJob::Options options;
  options.max_delay = std::chrono::microseconds(seed == 0 ? 0 : 300);
  options.seed = seed;
  std::vector<std::vector<T>> results(nodes.size());
  contract::run_on_nodes(nodes, options, [&](NodeRank& rank) {
    WireReport report;
    HierarchicalCollectives collectives(rank.topology, *rank.node, *rank.across, kOptions);
    if (wire) collectives.set_wire_type(*wire, report);
    const int own = rank.topology.rank;
    contract::PiecedArray<T> array(count, contract::Cut::kOddPieces);
    for (std::size_t i = 0; i < count; ++i) array.set(i, value(own, i));
    collectives.allreduce(array.buffer(), op);
    EXPECT_TRUE(array.guards_are_intact());
    auto& result = results[static_cast<std::size_t>(own)];
    for (std::size_t i = 0; i < count; ++i) result.push_back(array.get(i));
    if (reports != nullptr) (*reports)[static_cast<std::size_t>(own)] = report;
  });
  return results;
}

float wave(int rank, std::size_t i) {
  return std::sin(static_cast<float>(i * 31 + static_cast<std::size_t>(rank) * 7)) + 1.5f;
}

class Blocks : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Nodes, Blocks,
                         testing::Values("ab", "aabb", "aabbcc", "aaabbb", "abb", "aaab", "aaabbcc",
                                         "aaaabbbb"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST_P(Blocks, ArePipelinedInAnyNumber) {
  const auto value = [](int rank, std::size_t i) {
    return contract::contribution<float>(rank, i, ReduceOp::kAverage);
  };
  constexpr std::size_t kBlock = kBlockBytes / sizeof(float);
  const std::string nodes = GetParam();
  const auto size = static_cast<int>(nodes.size());
  for (const std::size_t count :
       {kBlock - 1, kBlock, kBlock + 1, 2 * kBlock, 3 * kBlock + 1, 7 * kBlock + 333})
    for (const auto& values : run<float>(nodes, count, ReduceOp::kAverage, {}, 0, value))
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(values[i], contract::expected_value<float>(size, i, ReduceOp::kAverage))
            << i << " of " << count;
}

TEST_P(Blocks, GiveSameBitsWithAnyTiming) {
  for (const std::optional<DataType> wire :
       {std::optional<DataType>(), std::optional(DataType::kFloat16)}) {
    const auto first = run<float>(GetParam(), 20011, ReduceOp::kAverage, wire, 0, wave);
    for (std::uint64_t seed = 1; seed < 4; ++seed)
      for (const auto& values : run<float>(GetParam(), 20011, ReduceOp::kAverage, wire, seed, wave))
        ASSERT_EQ(values, first[0]) << "seed " << seed;
  }
}

TEST_P(Blocks, AreSentBetweenNodesOnceAsWireType) {
  const std::string nodes = GetParam();
  constexpr std::size_t kCount = 20011;
  const int node_count = contract::topology_of(nodes, 0).node_count;
  std::vector<WireReport> reports(nodes.size());
  const auto results =
      run<float>(nodes, kCount, ReduceOp::kAverage, DataType::kBFloat16, 0, wave, &reports);
  for (std::size_t i = 0; i < kCount; ++i) {
    double exact = 0;
    for (int r = 0; r < static_cast<int>(nodes.size()); ++r)
      exact += double{wave(r, i)} / static_cast<double>(nodes.size());
    ASSERT_NEAR(results[0][i], exact, exact * 0x1p-8 * (node_count + 0.5)) << i;
  }
  std::uint64_t sent = 0;
  for (const WireReport& report : reports) sent += report.bytes_sent;
  EXPECT_EQ(sent, 2 * static_cast<std::size_t>(node_count - 1) * kCount * 2);
}

TEST_P(Blocks, KeepOtherTypesWithWireType) {
  const int size = static_cast<int>(std::string(GetParam()).size());
  const auto value = [](int rank, std::size_t i) {
    return static_cast<std::int32_t>(i) * 1000 + rank;
  };
  for (const std::size_t count : {501ul, 20011ul})  // one block and several
    for (const auto& values :
         run<std::int32_t>(GetParam(), count, ReduceOp::kAverage, DataType::kBFloat16, 0, value))
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(values[i], static_cast<std::int32_t>(i) * 1000 + (size - 1) / 2) << i;
}

}  // namespace
}  // namespace horo::collectives
