#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "examples/benchmarks/bench_timing.h"
#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"
#include "horo/horo.h"

namespace horo::bench {

/// Several contexts of one job, each with another HORO_ALGORITHM, to measure algorithms in turn in
/// one run.
class AlgorithmContexts {
 public:
  /// Collective. `algorithms`: values of HORO_ALGORITHM; empty: only `first`, named "horo". `first`
  /// keeps MPI initialised and must outlive this object. Throws InvalidArgument for an algorithm
  /// that does not exist or cannot serve the job.
  AlgorithmContexts(Context& first, const std::vector<std::string>& algorithms);

  std::size_t size() const { return names_.size(); }
  /// "horo", or "horo_<algorithm>".
  const std::string& name(std::size_t index) const { return names_[index]; }
  Context& context(std::size_t index) { return contexts_.empty() ? first_ : contexts_[index]; }

 private:
  Context& first_;
  std::vector<std::string> names_;
  std::vector<Context> contexts_;  // empty: first_ alone
};

/// The MPI type of `type`. MPI has no 16-bit floats: they are sent as 16-bit integers.
MPI_Datatype mpi_type_of(DataType type);

/// The MPI operation that matches `op`; the sum for an average. For 16-bit floats it is a user
/// operation that computes each element in float32 and rounds it. Must be destroyed before MPI is
/// finalised.
class MpiOperation {
 public:
  MpiOperation(DataType type, ReduceOp op);
  ~MpiOperation();
  MpiOperation(const MpiOperation&) = delete;
  MpiOperation& operator=(const MpiOperation&) = delete;
  MPI_Op get() const { return op_; }

 private:
  MPI_Op op_ = MPI_OP_NULL;
  bool is_own_ = false;
};

enum class CollectiveKind : std::uint8_t {
  kAllreduce,
  kReduceScatter,
  kAllgather,
  kBroadcast,
  kAlltoall,
  kBarrier,
};
inline constexpr CollectiveKind kCollectiveKinds[] = {
    CollectiveKind::kAllreduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllgather,
    CollectiveKind::kBroadcast, CollectiveKind::kAlltoall,      CollectiveKind::kBarrier};

/// "allreduce", "reduce_scatter", ...
std::string_view name_of(CollectiveKind kind);

bool is_reducing(CollectiveKind kind);

/// The ratio of bus bandwidth to algorithm bandwidth, as nccl-tests defines them (its
/// PERFORMANCE.md). Algorithm bandwidth is the size of the whole buffer divided by the time. The
/// whole buffer is the input, for alltoall the input of one rank, and for allgather the output.
double bus_factor(CollectiveKind kind, int ranks);

/// The measured operation: one collective with one type and size.
struct CollectiveCase {
  CollectiveKind kind = CollectiveKind::kAllreduce;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::size_t count =
      0;  ///< elements of the whole buffer, as defined by bus_factor(); 0 for a barrier

  std::size_t bytes() const { return count * size_of(type); }
};

/// The buffers of one case and its contenders: horo in each context, and the MPI library. Allreduce
/// in horo is a plan of one tensor (GradientSync), as in training. The other collectives are named
/// operations, which the ranks negotiate in each call.
class CollectiveTrial {
 public:
  /// Collective over the job.
  CollectiveTrial(AlgorithmContexts& contexts, const CollectiveCase& what);
  CollectiveTrial(const CollectiveTrial&) = delete;
  CollectiveTrial& operator=(const CollectiveTrial&) = delete;

  /// One contender per context, in order, then "mpi". Valid while the trial lives.
  const std::vector<Contender>& contenders() const { return contenders_; }
  /// Runs each contender once and throws Error for a wrong result. Leaves zeros in the buffers,
  /// since repeated sums of zeros do not overflow.
  void check_all();

 private:
  void add_horo(Context& context, const std::string& name);
  void run_mpi();
  void fill();
  void check(const std::string& who);

  // Elements of `rank` when the buffer is divided among all ranks.
  std::size_t share(int rank) const;
  std::size_t offset(int rank) const;  // number of elements before share(rank)
  TensorView in();
  TensorView out();

  const CollectiveCase what_;
  const int rank_;
  const int size_;
  const MpiOperation operation_;
  std::vector<int> counts_;   // for MPI: share() of each rank
  std::vector<int> offsets_;  // for MPI: offset() of each rank
  std::size_t in_count_ = 0;
  std::size_t out_count_ = 0;  // 0: in place
  std::vector<std::uint64_t> in_;
  std::vector<std::uint64_t> out_;
  std::vector<std::unique_ptr<GradientSync>> plans_;
  std::vector<Contender> contenders_;
};

}  // namespace horo::bench
