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
#include "horo/base/counters.h"
#include "horo/base/error.h"
#include "horo/base/operation_options.h"
#include "horo/base/tensor_view.h"
#include "horo/handle.h"
#include "horo/runtime_pointer.h"
#include "horo/trace_scope.h"

namespace horo {

class ProcessSet;
class Runtime;

/// Options of init().
struct InitOptions {
  /// The label of the log lines of this rank. Empty: "rank N".
  std::string log_label;
};

/// The membership of one rank in a job, returned by init(). Move-only. The destructor calls
/// shutdown().
///
/// Ranks match operations by name, so different ranks may submit them in different orders. Every
/// rank must submit every operation. A name may be used again after its operation has completed.
/// Operations without `_async` block until the result is there. Tensors lie in host memory.
///
/// All functions may be called from several threads at the same time. Blocking calls in a
/// completion callback (Handle::then()) throw InvalidArgument. In a child process of fork(), every
/// call throws ShutdownError, and the destructor does nothing.
///
/// Errors of operations:
/// - InvalidArgument is thrown by the call, on this rank only, and nothing is submitted. There is
///   one exception: the number of rows that an allgather or alltoall receives is known only after
///   all ranks have submitted it. If `output` has the wrong number of rows, the blocking call or
///   Handle::wait() throws InvalidArgument on this rank; the operation completes on the others.
/// - MismatchError, CommunicationError and ShutdownError are thrown by the blocking call or by
///   Handle::wait(), on every rank. After MismatchError and InvalidArgument the context remains
///   usable. After CommunicationError every later operation fails with it.
class Context {
 public:
  /// For horo's own parts. Programs call init().
  explicit Context(std::shared_ptr<Runtime> runtime);
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;
  ~Context();

  int rank() const;        ///< 0 ... size() - 1
  int size() const;        ///< number of ranks in the job
  int local_rank() const;  ///< 0 ... local_size() - 1
  int local_size() const;  ///< number of ranks on this node
  int node() const;        ///< 0 ... node_count() - 1
  int node_count() const;  ///< number of nodes

  /// Reduces `tensor` over all ranks, in place. All ranks give the same shape and type. Afterwards
  /// all ranks hold the same bits. For bool, kSum and kMax compute "or", kProduct and kMin compute
  /// "and", and kAverage throws InvalidArgument. Blocks.
  void allreduce(TensorView tensor, const AllreduceOptions& options = {});
  /// The same, without blocking. The caller keeps `tensor` alive and does not access it until the
  /// handle is done.
  ///
  /// Allreduces that are in flight at the same time may be fused into one, depending on timing. On
  /// several nodes, the ring adds the values of an element in an order that depends on its position
  /// in the fused buffer. So the last bits of floating point sums, averages and products may differ
  /// between two runs. They never differ between ranks. For the same bits in every run, use one of:
  /// HORO_ALLREDUCE=exchange, doubling or halving; allreduce_group(); a GradientSync; or at most
  /// one operation in flight.
  Handle allreduce_async(TensorView tensor, const AllreduceOptions& options = {});
  /// The same, with the result in `output`, which has the type and shape of `input`. The two are
  /// the same memory or do not overlap. `input` is not changed. The call copies `input` to `output`
  /// on the caller's thread, so after allreduce_async() returns, only `output` must stay alive and
  /// untouched. If the call throws InvalidArgument, `output` is unchanged.
  void allreduce(const ConstTensorView& input, TensorView output,
                 const AllreduceOptions& options = {});
  Handle allreduce_async(const ConstTensorView& input, TensorView output,
                         const AllreduceOptions& options = {});

  /// Reduces several tensors, in place, as one operation. They are exchanged together, with one
  /// collective for each element type, and are not fused with other tensors. All ranks give the
  /// same names, types and shapes in the same order. If options.name is empty, the operation has
  /// the name of its first tensor. Throws InvalidArgument, and submits none of the tensors, if
  /// there are none, if two overlap in memory, or if one of the names is pending.
  void allreduce_group(std::span<const NamedTensor> tensors, const AllreduceOptions& options = {});
  Handle allreduce_group_async(std::span<const NamedTensor> tensors,
                               const AllreduceOptions& options = {});

  /// Copies the values of `tensor` on rank options.root to `tensor` on every other rank. All ranks
  /// give the same shape and type.
  void broadcast(TensorView tensor, const BroadcastOptions& options = {});
  Handle broadcast_async(TensorView tensor, const BroadcastOptions& options = {});

  /// Copies several tensors of the root, such as all parameters, as one operation and in one
  /// collective, whatever their types. The rules for names and their order are those of
  /// allreduce_group(). Tensors must not overlap in memory.
  void broadcast_group(std::span<const NamedTensor> tensors, const BroadcastOptions& options = {});
  Handle broadcast_group_async(std::span<const NamedTensor> tensors,
                               const BroadcastOptions& options = {});

  /// Copies the bytes of the root to every rank and resizes `object` there. The other ranks need
  /// not know the number of bytes. Runs two collectives. Blocks.
  void broadcast_object(std::vector<std::byte>& object, const BroadcastOptions& options = {});
  /// Returns the bytes of every rank, by rank. Ranks may give different numbers of bytes. Runs two
  /// collectives. Blocks.
  std::vector<std::vector<std::byte>> allgather_object(std::span<const std::byte> object,
                                                       const AllgatherOptions& options = {});

  /// Concatenates the `input` of all ranks along the first dimension, in rank order, into `output`
  /// on every rank. The first dimension of `input` may differ between ranks; the others may not.
  /// The first dimension of `output` is the sum. `input` may be this rank's own part of `output`.
  void allgather(const ConstTensorView& input, TensorView output,
                 const AllgatherOptions& options = {});
  Handle allgather_async(const ConstTensorView& input, TensorView output,
                         const AllgatherOptions& options = {});

  /// Reduces `input` over all ranks and gives each rank its share of the result: a range of rows
  /// (first dimension). All ranks give the same shape. Shares are in rank order, and the first
  /// `rows % size` ranks have one row more. `output` has shard_rows() rows. The buffers must not
  /// overlap. `input` is not changed.
  void reduce_scatter(const ConstTensorView& input, TensorView output,
                      const ReduceScatterOptions& options = {});
  Handle reduce_scatter_async(const ConstTensorView& input, TensorView output,
                              const ReduceScatterOptions& options = {});
  /// The number of rows that reduce_scatter() of `rows` rows gives to this rank. Not collective.
  std::size_t shard_rows(std::size_t rows) const;

  /// Sends rows (first dimension) of `input` to every rank: the first splits[0] rows to rank 0, the
  /// next splits[1] rows to rank 1, and so on. `output` receives the rows that the ranks send to
  /// this rank, in rank order. Splits and numbers of rows may differ between ranks; the other
  /// dimensions may not. `output` may have more rows than it receives; those stay unchanged. The
  /// buffers must not overlap. `input` is not changed.
  ///
  /// Returns the number of rows received from each rank. For alltoall_async(), the handle returns
  /// it. Cost: every rank also receives the splits of all ranks, 8 * size^2 bytes.
  std::vector<std::size_t> alltoall(const ConstTensorView& input, TensorView output,
                                    const AlltoallOptions& options = {});
  AlltoallHandle alltoall_async(const ConstTensorView& input, TensorView output,
                                const AlltoallOptions& options = {});

  /// Checks that `tensors`, such as all parameters, have the same bytes on every rank, to find
  /// replicas that have diverged. Collective: all ranks give the same names, types and shapes in
  /// the same order. Each rank hashes its tensors on the caller's thread. If they are equal, the
  /// check costs one allreduce of 16 bytes. The probability that different tensors have equal
  /// hashes is about 2^-64. Blocks.
  ///
  /// Throws MismatchError on every rank if a tensor differs in its bytes, name, type or shape. The
  /// text has the first such tensor, its hashes, and the ranks that differ from most ranks (in a
  /// tie, from the lowest rank). Throws InvalidArgument on this rank if there are no tensors, or if
  /// a tensor has no name or no memory.
  void check_equal(std::span<const NamedTensor> tensors, const CheckEqualOptions& options = {});

  /// Blocks until every rank has called it.
  void barrier(const BarrierOptions& options = {});

  /// For ranks with different numbers of steps: a rank calls join() after its last step.
  /// Collective. Blocks until every rank has called it, and returns the rank that called it last.
  ///
  /// Until then, this rank takes part in the sum, average, min, max and product allreduces of the
  /// other ranks, groups included. It contributes values that do not change the result. Averages
  /// are divided by the number of ranks that submitted the operation. Other operations fail with
  /// MismatchError on the ranks that submit them. join() does not take part in the exchanges of a
  /// GradientSync; it has its own GradientSync::join().
  ///
  /// This rank must not submit operations while it joins. Throws ShutdownError if another rank
  /// shuts down instead.
  int join();

  /// Allocates memory for this rank that all ranks of its node have mapped; see Arena. Collective:
  /// all ranks call it in the same order. Each rank gets the largest number of bytes that any rank
  /// requests. Blocks. Throws InvalidArgument on this rank if `bytes` is 0 or above 128 TiB. Throws
  /// SharedMemoryError on every rank if a node has too little shared memory; the context remains
  /// usable.
  Arena allocate(std::size_t bytes);

  /// Makes a group of `ranks` with collectives of its own; see ProcessSet. `ranks` are ranks of
  /// this context: at least one, ascending, without repetition. Collective: all ranks of this
  /// context, members or not, call it with the same list and in the same order. Blocks.
  ///
  /// Throws InvalidArgument on this rank if the list is invalid, and MismatchError on every rank,
  /// with two of the lists, if they differ. Throws SharedMemoryError on every rank if a node has
  /// too little shared memory; the context remains usable.
  ProcessSet new_process_set(std::vector<int> ranks);

  /// The numbers of messages, collectives and bytes of this rank since init(). A ProcessSet counts
  /// its own.
  Counters counters() const;

  /// Begins a phase of this rank, such as "data" or "forward". It ends with the TraceScope. Stall
  /// warnings name the phase of a rank that others wait for, and the timeline shows it. Phases
  /// nest; the innermost one is reported. Not collective. Costs well under a microsecond.
  [[nodiscard]] TraceScope phase(std::string_view name);
  /// The same, for work during which the other ranks must wait, such as writing a checkpoint. The
  /// watchdog does not report this rank as stalled, and the time does not count towards the
  /// timeouts (HORO_TIMEOUT) of the other ranks.
  [[nodiscard]] TraceScope pause(std::string_view name);

  /// Leaves the job. Collective: blocks until every rank has called it, and closes all process sets
  /// of this context. Operations that are still pending on other ranks and need this rank fail
  /// there with ShutdownError, as do all later operations on this rank. A second call has no
  /// effect.
  ///
  /// Memory and connections are released when the Context and all its ProcessSets and GradientSyncs
  /// have been destroyed. MPI is then finalised too, if init() initialised it. If one of them is
  /// never destroyed, MPI is finalised when the process exits with code 0.
  ///
  /// While an exception unwinds the stack, shutdown() does not wait. It ends the job: the other
  /// ranks get CommunicationError, which names this rank and its last error.
  ///
  /// Throws CommunicationError, and InvalidArgument in a completion callback. The destructor does
  /// not throw: it logs errors. In a callback, it also ends the job on all ranks.
  void shutdown();

  /// For horo's own parts, such as GradientSync. Throws if there is no runtime; see RuntimePointer.
  const std::shared_ptr<Runtime>& runtime() const { return runtime_.get(); }

 protected:
  explicit Context(RuntimePointer runtime);
  bool has_runtime() const noexcept { return static_cast<bool>(runtime_); }
  /// Removes the runtime and returns it; null if there is none. Later calls throw `why`.
  std::shared_ptr<Runtime> release(std::exception_ptr why) {
    return runtime_.release(std::move(why));
  }

 private:
  void end_job_in_callback();

  RuntimePointer runtime_;
  int exceptions_at_start_ = 0;
};

/// Joins the job that mpirun started. A program without a launcher is a job of one rank.
/// Collective: every rank calls it. Several contexts may exist at the same time, if all ranks make
/// them in the same order. Blocks until all ranks have called it. If a rank is missing, logs a
/// warning after HORO_STALL_WARNING. After HORO_TIMEOUT, throws CommunicationError; a process that
/// waits in MPI_Init is ended instead.
///
/// Initialises MPI with MPI_THREAD_MULTIPLE, unless the program has initialised it. Works on a
/// duplicate of MPI_COMM_WORLD.
///
/// Throws InvalidArgument if a HORO_ variable is invalid, or if the program initialised MPI with a
/// lower thread level. Throws MismatchError if ranks have different settings. Throws
/// CommunicationError if MPI fails or was finalised before, or if it knows only one process
/// although the launcher started several. The launcher then belongs to another MPI.
Context init(const InitOptions& options = {});

}  // namespace horo
