#include "collectives/adasum/adasum.h"

#include <gtest/gtest.h>

#include <cstring>

#include "collectives/communicator.h"
#include "horo/base/error.h"
#include "tests/collectives/adasum/adasum_reference.h"
#include "tests/collectives/contract/thread_ranks.h"

namespace horo::collectives {
namespace {

using contract::run_thread_ranks;

constexpr int kRankCounts[] = {1, 2, 3, 4, 5, 7, 8};
// Covers tensors that are smaller than the number of ranks, empty, of odd size, and longer than a
// segment.
const std::vector<std::size_t> kCounts = {5, 1, 0, 3001, 64, 2, 777, 1};

struct Way {
  std::string name;
  Algorithm algorithm;
  std::size_t ranks_per_node = 0;
  std::size_t servers = 1;
};
const std::vector<Way> kWays = {{"shared_memory", Algorithm::kSharedMemory},
                                {"ring", Algorithm::kRing},
                                {"hierarchical_by_2", Algorithm::kHierarchical, 2},
                                {"hierarchical_by_3", Algorithm::kHierarchical, 3},
                                {"one_server", Algorithm::kParameterServer},
                                {"two_servers", Algorithm::kParameterServer, 0, 2}};

template <Element T>
using Tensors = std::vector<std::vector<T>>;

template <Element T>
T element(double value) {
  if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return T(static_cast<float>(value));
}

template <Element T>
double to_double(T value) {
  if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return static_cast<double>(static_cast<float>(value));
}

template <Element T>
Tensors<T> gradients_of(int rank) {
  Tensors<T> tensors;
  for (std::size_t t = 0; t < kCounts.size(); ++t) {
    tensors.emplace_back();
    for (std::size_t i = 0; i < kCounts[t]; ++i)
      tensors.back().push_back(element<T>(gradient_value(static_cast<std::size_t>(rank), t, i)));
  }
  return tensors;
}

// Runs function(communicator, rank) on every rank.
void run_communicators(int ranks, const Way& way,
                       const std::function<void(Communicator&, int)>& function) {
  Settings settings;
  settings.algorithm = way.algorithm;
  settings.servers = way.servers;
  settings.segment_bytes = 4096;
  settings.ring_segment_bytes = 512;
  settings.direct_bytes = 256;
  settings.stores = Stores::kPlain;
  InProcessJob::Options options;
  options.ranks_per_node = way.ranks_per_node;
  run_thread_ranks(ranks, options, [&](Transport& transport, int rank) {
    Communicator communicator(transport, settings, AllreduceSelection{}, transport.wait_policy(),
                              transport.wait_policy());
    function(communicator, rank);
  });
}

// Returns the results of all ranks. `together` reduces all tensors in one buffer, else each one
// separately.
template <Element T>
std::vector<Tensors<T>> run_adasum(int ranks, const Way& way, bool together) {
  std::vector<Tensors<T>> results(static_cast<std::size_t>(ranks));
  run_communicators(ranks, way, [&](Communicator& communicator, int rank) {
    Tensors<T> tensors = gradients_of<T>(rank);
    ScatteredBuffer all(data_type_of<T>);
    for (auto& tensor : tensors) {
      all.add(tensor.data(), tensor.size());
      if (!together)
        communicator.allreduce(ScatteredBuffer(data_type_of<T>, tensor.data(), tensor.size()),
                               ReduceOp::kAdasum);
    }
    if (together) communicator.allreduce(all, ReduceOp::kAdasum);
    results[static_cast<std::size_t>(rank)] = std::move(tensors);
  });
  return results;
}

template <Element T>
bool same_bits(const Tensors<T>& a, const Tensors<T>& b) {
  for (std::size_t t = 0; t < a.size(); ++t)
    if (a[t].size() != b[t].size() ||
        (!a[t].empty() && std::memcmp(a[t].data(), b[t].data(), a[t].size() * sizeof(T)) != 0))
      return false;
  return true;
}

template <Element T>
void expect_near_reference(int ranks, const Tensors<T>& found, double tolerance) {
  for (std::size_t t = 0; t < kCounts.size(); ++t) {
    std::vector<std::vector<double>> vectors;
    for (int r = 0; r < ranks; ++r) {
      vectors.emplace_back();
      const Tensors<T> gradients = gradients_of<T>(r);
      for (const T value : gradients[t]) vectors.back().push_back(to_double(value));
    }
    const std::vector<double> expected = reference_adasum(vectors);
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(to_double(found[t][i]), expected[i], tolerance)
          << ranks << " ranks, tensor " << t << " element " << i;
  }
}

template <Element T>
void check_type(double tolerance) {
  for (const int ranks : kRankCounts) {
    const Tensors<T> first = run_adasum<T>(ranks, kWays[0], true)[0];
    expect_near_reference<T>(ranks, first, tolerance);
    for (const Way& way : kWays)
      for (const Tensors<T>& of_rank : run_adasum<T>(ranks, way, true))
        ASSERT_TRUE(same_bits(of_rank, first)) << way.name << ", " << ranks << " ranks";
    for (const Tensors<T>& of_rank : run_adasum<T>(ranks, kWays[1], false))
      ASSERT_TRUE(same_bits(of_rank, first)) << "one by one, " << ranks << " ranks";
  }
}

TEST(Adasum, Float32MatchesReferenceInEveryAlgorithmAndPacking) { check_type<float>(1e-6); }
TEST(Adasum, Float64MatchesReferenceInEveryAlgorithmAndPacking) { check_type<double>(1e-14); }
TEST(Adasum, Float16IsRoundedOnce) { check_type<Float16>(0x1p-11 * 4); }
TEST(Adasum, BFloat16IsRoundedOnce) { check_type<BFloat16>(0x1p-8 * 4); }

TEST(Adasum, AddsOrthogonalAndAveragesEqualGradients) {
  for (const int ranks : kRankCounts)
    run_communicators(ranks, kWays[1], [&](Communicator& communicator, int rank) {
      const auto own = static_cast<std::size_t>(rank);
      std::vector<float> orthogonal(41), equal(17);
      for (std::size_t i = own; i < orthogonal.size(); i += static_cast<std::size_t>(ranks))
        orthogonal[i] = static_cast<float>(i + 1);
      for (std::size_t i = 0; i < equal.size(); ++i) equal[i] = static_cast<float>(i) - 3;
      ScatteredBuffer tensors(DataType::kFloat32, orthogonal.data(), orthogonal.size());
      tensors.add(equal.data(), equal.size());
      communicator.allreduce(tensors, ReduceOp::kAdasum);
      for (std::size_t i = 0; i < orthogonal.size(); ++i)
        ASSERT_EQ(orthogonal[i], static_cast<float>(i + 1));
      for (std::size_t i = 0; i < equal.size(); ++i) ASSERT_EQ(equal[i], static_cast<float>(i) - 3);
    });
}

TEST(Adasum, IgnoresZeroGradients) {
  for (const int ranks : kRankCounts)
    run_communicators(ranks, kWays[0], [&](Communicator& communicator, int rank) {
      std::vector<float> one(33), none(9);
      if (rank == ranks - 1)
        for (std::size_t i = 0; i < one.size(); ++i) one[i] = 0.1f * static_cast<float>(i + 1);
      ScatteredBuffer tensors(DataType::kFloat32, one.data(), one.size());
      tensors.add(none.data(), none.size());
      communicator.allreduce(tensors, ReduceOp::kAdasum);
      for (std::size_t i = 0; i < one.size(); ++i)
        ASSERT_EQ(one[i], 0.1f * static_cast<float>(i + 1));
      for (const float value : none) ASSERT_EQ(value, 0.0f);
    });
}

TEST(Adasum, TreatsAdjacentTensorsSeparately) {
  run_communicators(2, kWays[0], [&](Communicator& communicator, int rank) {
    // The ranks have equal values in the first tensor and orthogonal values in the second one.
    std::vector<float> memory =
        rank == 0 ? std::vector<float>{2, 2, 1, 0} : std::vector<float>{2, 2, 0, 1};
    ScatteredBuffer tensors(DataType::kFloat32, memory.data(), 2);
    tensors.add(memory.data() + 2, 2);
    communicator.allreduce(tensors, ReduceOp::kAdasum);
    EXPECT_EQ(memory, (std::vector<float>{2, 2, 1, 1}));
  });
}

TEST(Adasum, CommunicatorForwardsOtherOperations) {
  run_communicators(3, kWays[1], [&](Communicator& communicator, int rank) {
    std::vector<std::int32_t> values(5, rank + 1);
    communicator.allreduce({DataType::kInt32, values.data(), values.size()}, ReduceOp::kSum);
    EXPECT_EQ(values, std::vector<std::int32_t>(5, 6));
    EXPECT_THROW(
        communicator.allreduce({DataType::kInt32, values.data(), values.size()}, ReduceOp::kAdasum),
        InvalidArgument);
  });
}

}  // namespace
}  // namespace horo::collectives
