#include <gtest/gtest.h>
#include <mpi.h>

#include "collectives/communicator.h"
#include "collectives/mpi/mpi_transport.h"
#include "tests/collectives/adasum/adasum_reference.h"

namespace horo::collectives {
namespace {

constexpr std::size_t kCounts[] = {3001, 1, 70};

std::vector<float> gradients_of(int rank) {
  std::vector<float> values;
  for (std::size_t t = 0; t < std::size(kCounts); ++t)
    for (std::size_t i = 0; i < kCounts[t]; ++i)
      values.push_back(static_cast<float>(gradient_value(static_cast<std::size_t>(rank), t, i)));
  return values;
}

std::vector<float> adasum_by(Algorithm algorithm) {
  MpiTransport transport(MPI_COMM_WORLD, {}, 0);
  Settings settings;
  settings.algorithm = algorithm;
  const WaitPolicy policy;
  Communicator communicator(transport, settings, AllreduceSelection{}, policy, policy);
  std::vector<float> values = gradients_of(transport.topology().rank);
  ScatteredBuffer tensors(DataType::kFloat32);
  std::size_t at = 0;
  for (const std::size_t count : kCounts) {
    tensors.add(values.data() + at, count);
    at += count;
  }
  communicator.allreduce(tensors, ReduceOp::kAdasum);
  return values;
}

TEST(MpiAdasum, MatchesReferenceInEveryAlgorithm) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::vector<float> found = adasum_by(Algorithm::kMpi);
  for (const Algorithm other :
       {Algorithm::kRing, Algorithm::kSharedMemory, Algorithm::kHierarchical})
    EXPECT_EQ(adasum_by(other), found) << name_of(other);
  std::size_t at = 0;
  for (const std::size_t count : kCounts) {
    std::vector<std::vector<double>> vectors;
    for (int r = 0; r < ranks; ++r) {
      const std::vector<float> values = gradients_of(r);
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(at);
      vectors.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(count));
    }
    const std::vector<double> expected = reference_adasum(vectors);
    for (std::size_t i = 0; i < count; ++i) ASSERT_NEAR(found[at + i], expected[i], 1e-6) << i;
    at += count;
  }
}

}  // namespace
}  // namespace horo::collectives
