#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "examples/benchmarks/algorithm_contexts.h"
#include "examples/benchmarks/bench_timing.h"
#include "examples/benchmarks/collective_kind.h"
#include "examples/benchmarks/mpi_types.h"

namespace horo::bench {

/// What is measured: one collective of one type and size.
struct CollectiveCase {
  CollectiveKind kind = CollectiveKind::kAllreduce;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::size_t count = 0;  ///< elements of the whole buffer, as bus_factor() says; 0 for a barrier

  std::size_t bytes() const { return count * size_of(type); }
};

/// One case's memory, and the ways to run it: horo in each context and the MPI library. An
/// allreduce of horo is a plan of one tensor (GradientSync), as training uses it; the others are
/// named operations, on which the ranks agree each time.
class CollectiveTrial {
 public:
  /// Collective over the job.
  CollectiveTrial(AlgorithmContexts& contexts, const CollectiveCase& what);
  CollectiveTrial(const CollectiveTrial&) = delete;
  CollectiveTrial& operator=(const CollectiveTrial&) = delete;

  /// horo's, in the contexts' order, then "mpi". Valid as long as the trial.
  const std::vector<Contender>& contenders() const { return contenders_; }
  /// Runs each once and throws Error if it gives anything wrong. Leaves zeros, so that they can be
  /// summed however often.
  void check_all();

 private:
  void add_horo(Context& context, const std::string& name);
  void run_mpi();
  void fill();
  void check(const std::string& who);

  // Rows of `rank` when the buffer is dealt to all ranks.
  std::size_t share(int rank) const;
  std::size_t offset(int rank) const;  // elements before them
  TensorView in();
  TensorView out();

  const CollectiveCase what_;
  const int rank_;
  const int size_;
  const MpiOperation operation_;
  std::vector<int> counts_;   // for MPI: share of each rank
  std::vector<int> offsets_;  // and elements before it
  std::size_t in_count_ = 0;
  std::size_t out_count_ = 0;  // 0: in place
  std::vector<std::uint64_t> in_;
  std::vector<std::uint64_t> out_;
  std::vector<std::unique_ptr<GradientSync>> plans_;
  std::vector<Contender> contenders_;
};

}  // namespace horo::bench
