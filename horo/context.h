#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "horo/alltoall_handle.h"
#include "horo/arena.h"
#include "horo/base/error.h"
#include "horo/base/reduce_op.h"
#include "horo/base/tensor_view.h"
#include "horo/handle.h"
#include "horo/phase.h"
#include "horo/runtime_pointer.h"

namespace horo {

class ProcessSet;
class Runtime;

/// Options of init(). None is needed for a program that leaves MPI to horo.
struct InitOptions {
  /// Name of this rank's log lines; empty: "rank N".
  std::string log_label;
};

/// `name`: what the ranks match the operation by. Empty: "<operation>.<k>", k counting this rank's
/// unnamed operations of that kind, so that all ranks must submit those in the same order. A name
/// may be used again once the earlier operation of that name has completed.
///
/// `prescale`, `postscale`: the result is postscale * op(prescale * x). Finite, and the same on
/// every rank. Each product is rounded once to the type: float64 is multiplied in float64, the
/// other floating point types in float32, to which the factor is rounded. Integers: 1 only.
struct AllreduceOptions {
  std::string name;
  ReduceOp op = ReduceOp::kAverage;
  double prescale = 1.0;   ///< of this rank's values, before they are reduced
  double postscale = 1.0;  ///< of the result
};
struct BroadcastOptions {
  std::string name;
  int root = 0;  ///< the rank whose values all ranks receive
};
struct AllgatherOptions {
  std::string name;
};
struct ReduceScatterOptions {
  std::string name;
  ReduceOp op = ReduceOp::kAverage;  ///< any but kAdasum
  double prescale = 1.0;             ///< other than 1: of a copy of the input
  double postscale = 1.0;
};
struct AlltoallOptions {
  std::string name;
  /// Rows (first dimension) of this rank's input for each rank, by rank; their sum is all rows.
  /// Empty: dealt evenly, the first `rows % size` ranks get one more.
  std::vector<std::size_t> splits;
};
struct BarrierOptions {
  std::string name;
};
struct CheckEqualOptions {
  /// Names the check in errors. Calls of one name are counted together.
  std::string name;
  /// Compare in the first call and in each `every`-th one after it; at least 1. The same on all
  /// ranks.
  std::uint64_t every = 1;
};

/// What this rank has done since init(). Counts never go back.
struct Counters {
  std::uint64_t control_messages_sent = 0;  ///< negotiation messages this rank sent to another node
  std::uint64_t control_bytes_sent = 0;
  std::uint64_t node_messages_sent =
      0;  ///< negotiation messages it left in its node's shared memory
  std::uint64_t node_bytes_sent = 0;
  std::uint64_t collectives = 0;    ///< run by this rank, one per bucket or named operation
  std::uint64_t tensors = 0;        ///< tensors completed by them
  std::uint64_t payload_bytes = 0;  ///< bytes of those tensors
};

/// A rank's membership in the job. Made by init(); moved, not copied. All members may be called
/// from several threads at once. Operations are matched between ranks by name, so ranks may submit
/// them in different orders; every rank must submit each one. The destructor shuts down (see
/// shutdown()). In a child process of fork() every call throws ShutdownError, and the destructor
/// does nothing.
///
/// Errors of operations: InvalidArgument is thrown at once, on this rank, and nothing is submitted
/// (only an output with the wrong number of rows for what the ranks send in an allgather or
/// alltoall shows later, in the blocking form or in wait()).
/// MismatchError, CommunicationError and ShutdownError are thrown by the blocking form, or by
/// Handle::wait(), on every rank alike.
class Context {
 public:
  explicit Context(std::shared_ptr<Runtime> runtime);
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;
  ~Context();

  int rank() const;        ///< 0 ... size() - 1
  int size() const;        ///< ranks in the job
  int local_rank() const;  ///< among the ranks of this node
  int local_size() const;
  int node() const;  ///< 0 ... node_count() - 1
  int node_count() const;

  /// Reduces `tensor` over all ranks, in place: same shape and type on every rank. On return every
  /// rank holds the same bits. Of bool, kSum and kMax are "or", kProduct and kMin are "and"; there
  /// is no average. Blocks.
  void allreduce(TensorView tensor, const AllreduceOptions& options = {});
  /// The same without blocking; `tensor` must stay alive and untouched until the handle is done.
  Handle allreduce_async(TensorView tensor, const AllreduceOptions& options = {});
  /// The same with the result in `output`, of the same type and shape; `input` is not changed. The
  /// two are the same memory or do not overlap. The caller's thread copies `input` to `output`
  /// before the call returns or waits, so that of the asynchronous form `output` alone must stay
  /// alive and untouched. A call that is refused (InvalidArgument) leaves `output` as it is.
  void allreduce(const ConstTensorView& input, TensorView output,
                 const AllreduceOptions& options = {});
  Handle allreduce_async(const ConstTensorView& input, TensorView output,
                         const AllreduceOptions& options = {});

  /// Reduces several tensors, in place, as one operation: all of them are submitted or, if one of
  /// their names is pending, none; and they are exchanged together, one collective for each element
  /// type, with no other tensors among them. All ranks give the same names, types and shapes in the
  /// same order. Empty options.name: that of the first tensor. At least one tensor. Tensors must
  /// not overlap in memory.
  void allreduce_group(std::span<const NamedTensor> tensors, const AllreduceOptions& options = {});
  Handle allreduce_group_async(std::span<const NamedTensor> tensors,
                               const AllreduceOptions& options = {});

  /// Copies the root's `tensor` to every rank: same shape and type everywhere.
  void broadcast(TensorView tensor, const BroadcastOptions& options = {});
  Handle broadcast_async(TensorView tensor, const BroadcastOptions& options = {});

  /// Copies several tensors of the root, such as all parameters, as one operation and in one
  /// collective, whatever their types; otherwise as allreduce_group().
  void broadcast_group(std::span<const NamedTensor> tensors, const BroadcastOptions& options = {});
  Handle broadcast_group_async(std::span<const NamedTensor> tensors,
                               const BroadcastOptions& options = {});

  /// Copies the root's bytes, of any number, to every rank; on the others `object` is replaced. Two
  /// collectives.
  void broadcast_object(std::vector<std::byte>& object, const BroadcastOptions& options = {});
  /// Every rank's bytes, by rank; each may have another number of them. Two collectives.
  std::vector<std::vector<std::byte>> allgather_object(std::span<const std::byte> object,
                                                       const AllgatherOptions& options = {});

  /// Concatenates the ranks' `input`s along the first dimension, in rank order, into `output` on
  /// every rank. First dimensions may differ between ranks, the others may not; output's first
  /// dimension is the sum. `input` may be the rank's own part of `output`.
  void allgather(const ConstTensorView& input, TensorView output,
                 const AllgatherOptions& options = {});
  Handle allgather_async(const ConstTensorView& input, TensorView output,
                         const AllgatherOptions& options = {});

  /// Reduces `input` (same shape everywhere) over all ranks and leaves to each its share of the
  /// rows (first dimension): rows are dealt in rank order, the first `rows % size` ranks get one
  /// more. `output` has shard_rows() rows. The buffers must not overlap; `input` is not changed.
  void reduce_scatter(const ConstTensorView& input, TensorView output,
                      const ReduceScatterOptions& options = {});
  Handle reduce_scatter_async(const ConstTensorView& input, TensorView output,
                              const ReduceScatterOptions& options = {});
  /// How many of `rows` rows reduce_scatter() leaves on this rank.
  std::size_t shard_rows(std::size_t rows) const;

  /// Sends rows (first dimension) of `input` to every rank: the first splits[0] to rank 0, the next
  /// splits[1] to rank 1, and so on. `output` receives what the ranks send here, in rank order.
  /// Splits and numbers of rows may differ between ranks, the other dimensions may not. `output`
  /// has room for at least the rows that come; rows beyond them stay as they are. The buffers must
  /// not overlap; `input` is not changed. Returns how many rows came from each rank; the handle of
  /// the asynchronous form knows it too. Cost: besides the rows, all ranks' splits (8 * size^2
  /// bytes) travel to every rank.
  std::vector<std::size_t> alltoall(const ConstTensorView& input, TensorView output,
                                    const AlltoallOptions& options = {});
  AlltoallHandle alltoall_async(const ConstTensorView& input, TensorView output,
                                const AlltoallOptions& options = {});

  /// Checks that `tensors`, such as all parameters, have the same bytes on every rank: finds
  /// replicas that have diverged. Each rank hashes its tensors on the caller's thread; equal ones
  /// cost one allreduce of 16 bytes. Two tensors that differ have equal hashes with a probability
  /// of about 2^-64. Blocks. Collective: all ranks call it with the same names, types and shapes in
  /// the same order. Throws MismatchError, on every rank, that names the first tensor that differs,
  /// the ranks whose bytes are not those of most ranks (of rank 0, if as many differ), and the
  /// hashes; InvalidArgument, on this rank, for an empty list or a tensor without a name or memory.
  void check_equal(std::span<const NamedTensor> tensors, const CheckEqualOptions& options = {});

  /// Returns after every rank has called it.
  void barrier(const BarrierOptions& options = {});

  /// For a rank whose data has come to its end before that of others. Until every rank has called
  /// it, this rank takes part in the others' allreduces (sum, average, min, max, product; groups
  /// too) with values that change nothing, and an average is divided by the number of ranks that
  /// still submit. Any other operation fails on the ranks that submit it, with MismatchError that
  /// names a joined rank. GradientSync is not helped: exchange gradients by name where ranks have
  /// different numbers of steps. Returns on all ranks when all have called it: the last one to do
  /// so. Meanwhile this rank submits nothing else. Throws ShutdownError if a rank shuts down
  /// instead.
  int join();

  /// Memory of at least `bytes` bytes for this rank that all ranks of its node have mapped; see
  /// Arena. Collective: all ranks call it in the same order, and each gets as much as the rank that
  /// asks for the most. Throws SharedMemoryError, on every rank, if a node has not enough shared
  /// memory; the job may go on with other memory.
  Arena allocate(std::size_t bytes);

  /// The `ranks` (of this context: ascending, each once, at least one) as a group with collectives
  /// of its own; see ProcessSet. Collective: all ranks call it, members or not, with the same list
  /// and in the same order. Throws InvalidArgument, on this rank, if the list is not one of these;
  /// MismatchError, on every rank, that shows both lists if they differ; SharedMemoryError, on
  /// every rank, if a node has not enough shared memory, and the job may go on.
  ProcessSet new_process_set(std::vector<int> ranks);

  Counters counters() const;

  /// From now until the Phase is gone this rank is in the phase `name` ("data", "forward", ...):
  /// what is said of a rank that the others wait for, and a stretch of the timeline. Phases nest;
  /// the innermost one counts. Not collective; costs well under a microsecond.
  [[nodiscard]] Phase phase(std::string_view name);
  /// The same for time in which this rank lets the others wait on purpose, such as a checkpoint: it
  /// is not taken for stalled, and their deadlines (HORO_TIMEOUT) do not pass meanwhile.
  [[nodiscard]] Phase pause(std::string_view name);

  /// Waits until every rank has come here and ends the named operations; those still pending on
  /// other ranks that need this rank end there with ShutdownError. Memory and channels are
  /// released, and MPI finalised if init() had initialised it, when the Context, every ProcessSet
  /// and every GradientSync are gone. If one of them is never destroyed, MPI is finalised when the
  /// process exits with code 0. Process sets that are still open are closed. Called while an
  /// exception unwinds (from the destructor), it does not wait: the other ranks are told that this
  /// rank failed. A second call does nothing. Throws CommunicationError; InvalidArgument in a
  /// completion callback. The destructor cannot throw there: it logs an error and ends the job with
  /// that text on all ranks.
  void shutdown();

  /// For horo's own parts, such as GradientSync.
  const std::shared_ptr<Runtime>& runtime() const { return runtime_.get(); }

 protected:
  explicit Context(RuntimePointer runtime);
  bool has_runtime() const noexcept { return static_cast<bool>(runtime_); }
  /// Takes the runtime away, if there is one; later calls throw `why`.
  std::shared_ptr<Runtime> release(std::exception_ptr why) {
    return runtime_.release(std::move(why));
  }

 private:
  void end_job_in_callback();

  RuntimePointer runtime_;
  int exceptions_at_start_ = 0;
};

/// Joins the job that mpirun started; a program started alone is a job of one rank. Collective:
/// every rank must call it, once. Initialises MPI (MPI_THREAD_MULTIPLE) unless the program has;
/// works on a duplicate of MPI_COMM_WORLD. Several contexts may live at once. Throws
/// InvalidArgument if a HORO_ variable does not parse or the program initialised MPI at a lower
/// level; MismatchError if ranks have different settings; CommunicationError if MPI fails, has been
/// finalised before, or knows of one process where the launcher has started several (it is then
/// another MPI's).
Context init(const InitOptions& options = {});

}  // namespace horo
