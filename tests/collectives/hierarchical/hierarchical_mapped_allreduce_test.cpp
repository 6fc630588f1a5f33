#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "collectives/hierarchical/hierarchical_collectives.h"
#include "tests/collectives/contract/exact_values.h"
#include "tests/collectives/hierarchical/mapped_array.h"
#include "tests/collectives/hierarchical/pretended_nodes.h"
#include "tests/support/sanitizer.h"

namespace horo::collectives {
namespace {

using contract::MappedArray;
using contract::NodeRank;

constexpr std::size_t kLargest = 5003;
constexpr std::size_t kBytesPerRank = 3 * kLargest * sizeof(std::int64_t);
constexpr HierarchicalCollectives::Options kMappedOptions{.segment_bytes = 512,
                                                          .block_bytes = 16384};

using Allreduce = std::function<void(const MappedBuffer&, ReduceOp)>;

template <typename T>
void check(const Allreduce& allreduce, const NodeRank& rank, const NodeBlock& block,
           std::size_t count, ReduceOp op, bool is_in_pieces) {
  const Topology& topology = rank.topology;
  MappedArray<T> array(rank, block, count, is_in_pieces);
  array.set([&](std::size_t i) { return contract::contribution<T>(topology.rank, i, op); });
  allreduce(array.buffer(), op);
  const std::vector<T> values = array.values();
  for (std::size_t i = 0; i < count; ++i) {
    const T expected = contract::expected_value<T>(topology.size, i, op);
    ASSERT_EQ(std::memcmp(&values[i], &expected, sizeof(T)), 0)
        << name_of(data_type_of<T>) << " " << name_of(op) << " rank " << topology.rank
        << " element " << i << " of " << count;
  }
  array.expect_guards_intact();
}

void check_every_type(const Allreduce& allreduce, const NodeRank& rank, const NodeBlock& block,
                      std::size_t count, ReduceOp op, bool is_in_pieces) {
  if (!is_tested(op)) return;
  contract::for_each_type(
      [&]<typename T>(T) { check<T>(allreduce, rank, block, count, op, is_in_pieces); });
}

class MappedNodes : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Nodes, MappedNodes,
                         testing::Values("ab", "aabb", "abab", "abb", "aaab", "aaabbcc",
                                         "aaaabbbb"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST_P(MappedNodes, ReduceEveryTypeAndOperationInPlace) {
  contract::run_on_nodes(GetParam(), {}, [](NodeRank& rank) {
    HierarchicalCollectives collectives(rank.topology, *rank.node, *rank.across, kMappedOptions);
    ASSERT_TRUE(collectives.uses_mapped_buffers());
    const NodeBlock block = contract::make_block(rank, kBytesPerRank);
    const Allreduce allreduce = [&](const MappedBuffer& buffer, ReduceOp op) {
      collectives.allreduce_mapped(buffer, op);
    };
    for (const std::size_t count : {0ul, 1ul, 1023ul, kLargest})
      for (int op = 0; op < kElementwiseOpCount; ++op)
        check_every_type(allreduce, rank, block, count, ReduceOp(op), true);
  });
}

// Tests the ring for every size, including those for which HierarchicalCollectives uses another
// algorithm.
TEST_P(MappedNodes, ReduceAnyCountOverTheRing) {
  contract::run_on_nodes(GetParam(), {}, [](NodeRank& rank) {
    const NodeLayout layout(rank.topology);
    Hierarchy hierarchy{layout, *rank.node, nullptr, nullptr, 16384, 512, {}, {}, {}, {}};
    const std::vector<std::string> names(static_cast<std::size_t>(layout.node_count()), "a rank");
    std::optional<SubGroup> column;
    std::optional<SegmentFlow> flow;
    if (layout.has_column()) {
      column.emplace(*rank.across, layout.column_ranks(layout.local_rank()), 0);
      flow.emplace(*column, names);
      hierarchy.flow = &*flow;
    }
    const NodeBlock block = contract::make_block(rank, kBytesPerRank);
    const Allreduce allreduce = [&](const MappedBuffer& buffer, ReduceOp op) {
      hierarchical_mapped_allreduce(hierarchy, buffer, op);
    };
    // Sizes near those of cache lines and segments.
    for (const std::size_t count : {1ul, 17ul, 1025ul})
      for (const bool is_in_pieces : {false, true})
        for (int op = 0; op < kElementwiseOpCount; ++op)
          check_every_type(allreduce, rank, block, count, ReduceOp(op), is_in_pieces);
    for (std::size_t count = 0; count < 2000;
         count = count * (kHasThreadSanitizer ? 16 : 9) / 8 + 1)
      check<float>(allreduce, rank, block, count, ReduceOp::kSum, true);
  });
}

// Returns the result of each rank for the input value(rank, i).
template <typename T>
std::vector<std::vector<T>> run_mapped(const std::string& nodes, std::size_t count, ReduceOp op,
                                       std::optional<DataType> wire, std::uint64_t seed,
                                       const std::function<T(int, std::size_t)>& value,
                                       std::vector<WireReport>* reports = nullptr,
                                       MessageAllreduce setting = MessageAllreduce::kRing) {
  InProcessJob::Options options;
  options.max_delay = std::chrono::microseconds(seed == 0 ? 0 : 300);
  options.seed = seed;
  std::vector<std::vector<T>> results(nodes.size());
  contract::run_on_nodes(nodes, options, [&](NodeRank& rank) {
    WireReport report;
    HierarchicalCollectives::Options between_nodes = kMappedOptions;
    between_nodes.allreduce.setting = setting;
    HierarchicalCollectives collectives(rank.topology, *rank.node, *rank.across, between_nodes);
    if (wire) collectives.set_wire_type(*wire, report);
    const NodeBlock block = contract::make_block(rank, 4 * count * sizeof(T) + 4096);
    MappedArray<T> array(rank, block, count, true);
    const int own = rank.topology.rank;
    array.set([&](std::size_t i) { return value(own, i); });
    collectives.allreduce_mapped(array.buffer(), op);
    results[static_cast<std::size_t>(own)] = array.values();
    array.expect_guards_intact();
    if (reports != nullptr) (*reports)[static_cast<std::size_t>(own)] = report;
  });
  return results;
}

float mapped_value(int rank, std::size_t i) {
  return std::sin(static_cast<float>(i * 31 + static_cast<std::size_t>(rank) * 7)) + 1.5f;
}

// Includes ranks without a column. The wire type affects the choice.
TEST_P(MappedNodes, ChooseSameAllreduceOnEveryRank) {
  for (std::size_t count = 1; count < 600000; count *= 13) {
    const auto sums = run_mapped<float>(
        GetParam(), count, ReduceOp::kSum, DataType::kFloat16, 0,
        [](int rank, std::size_t i) { return static_cast<float>(rank + static_cast<int>(i % 9)); },
        nullptr, MessageAllreduce::kAuto);
    const auto ranks = static_cast<int>(sums.size());
    for (const auto& values : sums)
      for (std::size_t i = 0; i < count; i += 1 + i / 50)
        ASSERT_EQ(values[i],
                  static_cast<float>(ranks * (ranks - 1) / 2 + ranks * static_cast<int>(i % 9)));
  }
}

TEST_P(MappedNodes, GiveSameBitsWithAnyTiming) {
  const std::string nodes = GetParam();
  for (const std::optional<DataType> wire :
       {std::optional<DataType>(), std::optional(DataType::kBFloat16)}) {
    const auto first = run_mapped<float>(nodes, 20011, ReduceOp::kAverage, wire, 0, mapped_value);
    for (std::uint64_t seed = 1; seed < 4; ++seed)
      for (const auto& values :
           run_mapped<float>(nodes, 20011, ReduceOp::kAverage, wire, seed, mapped_value))
        ASSERT_EQ(values, first[0]) << "seed " << seed;
  }
}

TEST_P(MappedNodes, SumInRankOrderThenInRingOrder) {
  const std::string nodes = GetParam();
  const int size = static_cast<int>(nodes.size());
  const Topology topology = contract::topology_of(nodes, 0);
  constexpr std::size_t kCount = 20011;
  const auto results = run_mapped<float>(nodes, kCount, ReduceOp::kSum, {}, 0, mapped_value);
  const auto node_sum = [&](int node, std::size_t i) {
    float sum = 0;
    bool is_first = true;
    for (const int r : topology.ranks_of(node)) {
      sum = is_first ? mapped_value(r, i) : sum + mapped_value(r, i);
      is_first = false;
    }
    return sum;
  };
  for (std::size_t i = 0; i < kCount; ++i) {
    // The test does not compute the owner of a chunk: the sum must be that of any owner.
    bool is_found = false;
    for (int owner = 0; owner < topology.node_count; ++owner) {
      float sum = node_sum((owner + 1) % topology.node_count, i);
      for (int k = 2; k <= topology.node_count; ++k)
        sum += node_sum((owner + k) % topology.node_count, i);
      is_found |= sum == results[0][i];
    }
    ASSERT_TRUE(is_found) << i << " of " << size << " ranks";
  }
}

TEST_P(MappedNodes, NarrowOnlyBetweenNodes) {
  const std::string nodes = GetParam();
  constexpr std::size_t kCount = 50021;
  const auto size = static_cast<int>(nodes.size());
  const int node_count = contract::topology_of(nodes, 0).node_count;
  const auto columns = static_cast<std::size_t>(contract::topology_of(nodes, 0).smallest_node());
  for (const DataType wire : {DataType::kFloat16, DataType::kBFloat16}) {
    const float unit =
        wire == DataType::kFloat16 ? 0x1p-11f : 0x1p-8f;  // the error of one rounding
    std::vector<WireReport> reports(nodes.size());
    const auto results =
        run_mapped<float>(nodes, kCount, ReduceOp::kAverage, wire, 0, mapped_value, &reports);
    for (std::size_t i = 0; i < kCount; ++i) {
      double exact = 0;
      for (int r = 0; r < size; ++r) exact += double{mapped_value(r, i)} / size;
      ASSERT_NEAR(results[0][i], exact, exact * unit * (node_count + 0.5)) << i;
    }
    std::uint64_t sent = 0;
    for (const WireReport& report : reports) sent += report.bytes_sent;
    EXPECT_EQ(sent, 2 * static_cast<std::size_t>(node_count - 1) * kCount * 2);
    EXPECT_GT(reports[0].relative_error(), 0x1p-13);
    EXPECT_LT(reports[0].relative_error(), 0x1p-8);
    for (std::size_t r = 0; r < nodes.size(); ++r) {
      const int local_rank = contract::topology_of(nodes, static_cast<int>(r)).local_rank;
      EXPECT_EQ(reports[r].bytes_sent > 0, static_cast<std::size_t>(local_rank) < columns);
    }
  }
}

TEST_P(MappedNodes, AverageBeforeNarrowingToAvoidOverflow) {
  const auto value = [](int, std::size_t) { return 60000.0f; };
  for (const auto& values :
       run_mapped<float>(GetParam(), 20011, ReduceOp::kAverage, DataType::kFloat16, 0, value))
    for (const float x : values) ASSERT_NEAR(x, 60000.0f, 60.0f);
}

TEST_P(MappedNodes, KeepOtherTypesWithWireType) {
  const int size = static_cast<int>(std::string(GetParam()).size());
  const auto value = [](int rank, std::size_t i) {
    return static_cast<std::int32_t>(i) * 1000 + rank;
  };
  for (const auto& values : run_mapped<std::int32_t>(GetParam(), 20011, ReduceOp::kAverage,
                                                     DataType::kBFloat16, 0, value))
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], static_cast<std::int32_t>(i) * 1000 + (size - 1) / 2) << i;
}

}  // namespace
}  // namespace horo::collectives
