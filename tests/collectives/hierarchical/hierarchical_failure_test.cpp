#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "horo/base/error.h"
#include "tests/collectives/hierarchical/pretended_nodes.h"

namespace horo::collectives {
namespace {

using contract::NodeRank;
using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;

constexpr HierarchicalCollectives::Options kFailureOptions{
    .segment_bytes = 256, .block_bytes = 4096, .allreduce = {.setting = MessageAllreduce::kRing}};
constexpr std::size_t kCount = 8 * 1024;  // eight blocks
const std::string kNodes = "aabb";
constexpr int kFailing = 2;

struct Death : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Counts the steps of its rank until the rank fails.
class FailureCountdown {
 public:
  explicit FailureCountdown(int steps) : left_(steps) {}
  void step() {
    if (left_-- == 0) throw Death("out of memory");
  }

 private:
  int left_;
};

class FailingPeers : public PointToPoint {
 public:
  FailingPeers(PointToPoint& peers, FailureCountdown& countdown)
      : peers_(peers), countdown_(countdown) {}
  int rank() const override { return peers_.rank(); }
  int size() const override { return peers_.size(); }
  Ticket start_send(int peer, int tag, std::span<const std::byte> bytes) override {
    countdown_.step();
    return peers_.start_send(peer, tag, bytes);
  }
  Ticket start_receive(int peer, int tag, std::span<std::byte> bytes) override {
    return peers_.start_receive(peer, tag, bytes);
  }
  bool test(Ticket ticket) override { return peers_.test(ticket); }

 protected:
  const WaitPolicy& default_wait_policy() const override { return peers_.wait_policy(); }

 private:
  PointToPoint& peers_;
  FailureCountdown& countdown_;
};

class FailingNode : public Collectives {
 public:
  FailingNode(Collectives& node, FailureCountdown& countdown)
      : node_(node), countdown_(countdown) {}
  std::string_view name() const override { return "mortal"; }
  void allreduce(const ScatteredBuffer& buffer, ReduceOp op) override {
    countdown_.step();
    node_.allreduce(buffer, op);
  }
  void broadcast(const ScatteredBuffer& buffer, int root) override {
    node_.broadcast(buffer, root);
  }
  void allgather(std::span<const std::byte> input, std::span<const std::size_t> bytes_of,
                 std::span<std::byte> output) override {
    countdown_.step();
    node_.allgather(input, bytes_of, output);
  }
  void reduce_scatter(const std::byte* input, DataType type, std::span<const std::size_t> count_of,
                      std::byte* output, ReduceOp op) override {
    countdown_.step();
    node_.reduce_scatter(input, type, count_of, output, op);
  }
  void alltoall(std::span<const std::byte> input, std::span<const std::size_t> bytes_to,
                std::span<std::byte> output, std::span<const std::size_t> bytes_from) override {
    node_.alltoall(input, bytes_to, output, bytes_from);
  }
  void barrier() override {
    countdown_.step();
    node_.barrier();
  }

 private:
  Collectives& node_;
  FailureCountdown& countdown_;
};

enum class FailingPart { kInNode, kBetweenNodes };

// Returns the error of each rank when rank 2 fails after `steps` steps in shared memory or
// messages; "" for none. With is_silent it does not mark its exit, as if it had been killed.
std::vector<std::string> errors_of(FailingPart phase, int steps, bool is_mapped, bool is_silent) {
  InProcessJob::Options options;
  options.wait.timeout = std::chrono::milliseconds(is_silent ? 150 : 60000);
  std::vector<std::string> errors(kNodes.size());
  InProcessJob job(static_cast<int>(kNodes.size()), options);
  // The node memory outlives the threads, because a killed process does not mark its exit either.
  std::vector<std::unique_ptr<Transport>> transports(kNodes.size());
  std::vector<std::unique_ptr<NodeRank>> members(kNodes.size());
  const auto run = [&](int rank) {
    const auto index = static_cast<std::size_t>(rank);
    transports[index] = job.transport(rank);
    Transport& transport = *transports[index];
    members[index] = std::make_unique<NodeRank>(contract::make_node_rank(transport, kNodes, rank));
    NodeRank& member = *members[index];
    const NodeBlock block = contract::make_block(member, kCount * sizeof(float));
    FailureCountdown wire_countdown(rank == kFailing && phase == FailingPart::kBetweenNodes ? steps
                                                                                            : -1);
    FailureCountdown node_countdown(rank == kFailing && phase == FailingPart::kInNode ? steps : -1);
    FailingPeers peers(*member.across, wire_countdown);
    FailingNode node(*member.node, node_countdown);
    HierarchicalCollectives collectives(member.topology, node, peers, kFailureOptions);
    MappedBuffer buffer(DataType::kFloat32, 2, member.topology.local_rank);
    const std::vector<int> local = member.topology.ranks_of(member.topology.node);
    buffer.add(std::vector{block.at(local[0], 0), block.at(local[1], 0)}, kCount);
    try {
      if (is_mapped)
        collectives.allreduce_mapped(buffer, ReduceOp::kSum);
      else
        collectives.allreduce(buffer.own(), ReduceOp::kSum);
    } catch (const std::exception& error) {
      errors[index] = error.what();
      if (rank == kFailing && !is_silent) transport.abort("rank 2 (host b): out of memory");
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < static_cast<int>(kNodes.size()); ++rank)
      threads.emplace_back(run, rank);
  }
  return errors;
}

class HierarchicalFailure : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Buffers, HierarchicalFailure, testing::Values(false, true),
                         [](const auto& tested) { return tested.param ? "mapped" : "ordinary"; });

TEST_P(HierarchicalFailure, ReachesDependentRanksFromAnyStep) {
  for (const FailingPart phase : {FailingPart::kInNode, FailingPart::kBetweenNodes}) {
    int steps = 0;
    for (;; ++steps) {
      const auto errors = errors_of(phase, steps, GetParam(), false);
      if (errors[kFailing].empty()) break;
      EXPECT_EQ(errors[kFailing], "out of memory");
      for (const int rank : {0, 1, 3})
        EXPECT_THAT(errors[static_cast<std::size_t>(rank)],
                    AnyOf("", "rank 2 (host b): out of memory"))
            << "step " << steps;
      EXPECT_EQ(errors[3], "rank 2 (host b): out of memory") << "its node needs it to the end";
    }
    EXPECT_GE(steps, phase == FailingPart::kInNode ? (GetParam() ? 2 : 16) : 8);
  }
}

TEST_P(HierarchicalFailure, SilentRankTimesOutWithItsName) {
  for (const FailingPart phase : {FailingPart::kInNode, FailingPart::kBetweenNodes})
    for (const int steps : {0, 1}) {
      const auto errors = errors_of(phase, steps, GetParam(), true);
      EXPECT_EQ(errors[kFailing], "out of memory");
      EXPECT_THAT(errors[3], HasSubstr("waited")) << "step " << steps;
      EXPECT_THAT(errors, Contains(HasSubstr("for rank 2 (host b)"))) << "step " << steps;
    }
}

}  // namespace
}  // namespace horo::collectives
