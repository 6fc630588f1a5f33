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

/// The interface for programs.
namespace horo {

class ProcessSet;
class Runtime;

/// Options of init().
struct InitOptions {
  /// The label of the log lines of the thread that calls init() and of the threads that horo
  /// starts. If `log_label` is empty, the label is "rank N".
  std::string log_label;
};

/// The membership of one rank in a job, returned by init(). Move-only. Destruction leaves the job;
/// see shutdown().
///
/// Ranks match operations by name. Asynchronous operations (`_async`) with different names may be
/// submitted in a different order on each rank. Operations without `_async` block until the
/// operation has completed. Ranks that make blocking calls in different orders from one thread
/// deadlock. Every rank must submit every operation; join() is the exception. A name may be used
/// again after its operation has completed.
///
/// Tensors of an operation lie in host memory, or all in the memory of one device. A view of device
/// memory is made with TensorView(data, shape, device), where open_gpu() returns the device.
/// Streams order operations on such tensors and the other work of the device, so the host need not
/// wait for the device:
///
///     const auto gpu = open_gpu(ctx);
///     const TensorView w(address, shape, *gpu);
///     const Handle h = ctx.allreduce_async(w, {.name = "w.grad", .stream = stream});
///     // ... other work of the host, and of the stream
///     h.wait_on(stream);   // later work of the stream starts after the operation
///
/// The device runs the operations of a context one after the other, in the same order on all ranks.
/// An operation may have to wait on the device for the streams of all ranks, and later operations
/// then wait too. From submission until the operation has completed, only work that was enqueued on
/// options.stream before may access its tensors. Adasum, int16 and uint16 throw InvalidArgument in
/// reductions of device memory. The first operation connects the devices of the ranks, and
/// allocates two buffers of HORO_BUCKET_BYTES on each device. The context keeps them and the device
/// until shutdown().
///
/// All functions, except moving and destruction, may be called from several threads at the same
/// time. Blocking calls in a completion callback (Handle::then()) throw InvalidArgument. In a child
/// process of fork(), every call throws ShutdownError, and the destructor does nothing.
///
/// Errors of operations:
/// - InvalidArgument is thrown by the call, on this rank only, and nothing is submitted. The
///   exception is an `output` of an allgather or alltoall with the wrong number of rows. The number
///   of rows to receive is known only after all ranks have submitted the operation. Therefore the
///   blocking call or Handle::wait() throws InvalidArgument on this rank. On ranks with a correct
///   `output`, the operation completes.
/// - MismatchError and ShutdownError are thrown by the blocking call or by Handle::wait(), on every
///   rank that has submitted the operation.
/// - CommunicationError is thrown in the same way, on every rank on which the operation has not
///   completed before the failure. Every later operation of the context then fails with
///   CommunicationError. A SharedMemoryError, although it is a CommunicationError, does not have
///   this effect. A CommunicationError is also thrown if a device fails, or if a device takes
///   longer than HORO_TIMEOUT for an operation that it has begun.
/// - DeviceError is thrown in the same way, on every rank, if the devices of the ranks cannot be
///   connected, for example because a device has too little memory. If only one rank takes part, it
///   is also thrown if its device fails.
/// - The context remains usable after InvalidArgument, MismatchError, SharedMemoryError and, with
///   several ranks, DeviceError.
class Context {
 public:
  /// For use inside horo. Programs call init().
  explicit Context(std::shared_ptr<Runtime> runtime);
  /// Calls on the other object then throw ShutdownError.
  Context(Context&&) noexcept;
  /// Exchanges the two memberships: the destructor of the other object leaves the former job.
  Context& operator=(Context&&) noexcept;
  ~Context();

  int rank() const;        ///< 0 ... size() - 1
  int size() const;        ///< number of ranks in the job
  int local_rank() const;  ///< 0 ... local_size() - 1
  int local_size() const;  ///< number of ranks on this node
  int node() const;        ///< 0 ... node_count() - 1
  int node_count() const;  ///< number of nodes

  /// Reduces `tensor` over all ranks, in place. All ranks must give the same shape, type and
  /// options. Afterwards, `tensor` has the same bits on all ranks. For bool, kSum and kMax compute
  /// "or", and kProduct and kMin compute "and". kAverage and kAdasum of bool throw InvalidArgument.
  /// Blocks.
  void allreduce(TensorView tensor, const AllreduceOptions& options = {});
  /// The same, without blocking. The caller must keep the memory of `tensor` alive and must not
  /// access it until the operation has completed.
  ///
  /// Allreduces that are in flight at the same time may be fused into one, depending on timing. The
  /// algorithm depends on the size of the fused buffer. In a ring, the order of additions depends
  /// on the position of an element in the fused buffer. On several nodes, and with
  /// HORO_ALGORITHM=ring, the last bits of floating point sums, averages and products may therefore
  /// differ between two runs. They never differ between ranks. Any one of the following gives the
  /// same bits in every run:
  /// - HORO_ALLREDUCE=exchange, doubling or halving
  /// - allreduce_group() or a GradientSync
  /// - at most one operation in flight
  Handle allreduce_async(TensorView tensor, const AllreduceOptions& options = {});
  /// The same as the two functions above, with the result in `output`. `output` must have the type
  /// and shape of `input`. It must either be the same memory as `input` or not overlap `input`. In
  /// the latter case, the call copies `input` to `output` on the caller's thread and does not
  /// change `input`. After allreduce_async() has returned, only `output` must stay alive and
  /// untouched. In device memory, the device copies, so `input` must stay alive and unchanged until
  /// the operation has completed. If the call throws InvalidArgument, `output` is unchanged.
  void allreduce(const ConstTensorView& input, TensorView output,
                 const AllreduceOptions& options = {});
  /// The same, without blocking.
  Handle allreduce_async(const ConstTensorView& input, TensorView output,
                         const AllreduceOptions& options = {});

  /// Reduces several tensors, in place, as one operation. The tensors are exchanged together, with
  /// one collective for each element type, and are not fused with tensors of other operations. All
  /// ranks must give the same names, types and shapes in the same order, and the same options. If
  /// options.name is empty, the operation has the name of its first tensor.
  ///
  /// Besides the errors of allreduce(), throws InvalidArgument and submits nothing in these cases:
  /// `tensors` is empty; a tensor has no name; two tensors have the same name or overlap in memory;
  /// the name of the operation or of a tensor is in use by an operation that has not completed.
  void allreduce_group(std::span<const NamedTensor> tensors, const AllreduceOptions& options = {});
  /// The same, without blocking. The caller must keep the memory of the tensors alive and must not
  /// access it until the operation has completed.
  Handle allreduce_group_async(std::span<const NamedTensor> tensors,
                               const AllreduceOptions& options = {});

  /// Copies the values of `tensor` on rank options.root to `tensor` on every other rank. All ranks
  /// must give the same root, shape and type.
  void broadcast(TensorView tensor, const BroadcastOptions& options = {});
  /// The same, without blocking. `tensor` must stay alive and untouched until the operation has
  /// completed.
  Handle broadcast_async(TensorView tensor, const BroadcastOptions& options = {});

  /// Copies several tensors of the root, such as all parameters, to every other rank. This is one
  /// operation and one collective, even if the tensors have different types. The rules for names
  /// and their order are those of allreduce_group(). The tensors must not overlap in memory;
  /// broadcast_group() does not check this.
  void broadcast_group(std::span<const NamedTensor> tensors, const BroadcastOptions& options = {});
  /// The same, without blocking. The tensors must stay alive and untouched until the operation has
  /// completed.
  Handle broadcast_group_async(std::span<const NamedTensor> tensors,
                               const BroadcastOptions& options = {});

  /// Copies the bytes of `object` on rank options.root to `object` on every other rank, and resizes
  /// `object` there. The other ranks need not know the number of bytes. Runs two operations,
  /// "NAME.bytes" and NAME, where NAME is options.name. Blocks.
  void broadcast_object(std::vector<std::byte>& object, const BroadcastOptions& options = {});
  /// Returns the bytes of every rank; element r holds those of rank r. Ranks may give different
  /// numbers of bytes. Runs two operations, named as in broadcast_object(). Blocks.
  std::vector<std::vector<std::byte>> allgather_object(std::span<const std::byte> object,
                                                       const AllgatherOptions& options = {});

  /// Concatenates the `input` of all ranks along the first dimension, in rank order, into `output`
  /// on every rank. The first dimension of `input` may differ between ranks. The other dimensions
  /// and the type must be equal. The first dimension of `output` must be the sum of the first
  /// dimensions of all inputs. `input` may be this rank's own part of `output`. Otherwise the two
  /// must not overlap.
  void allgather(const ConstTensorView& input, TensorView output,
                 const AllgatherOptions& options = {});
  /// The same, without blocking. `input` and `output` must stay alive, and `output` untouched,
  /// until the operation has completed.
  Handle allgather_async(const ConstTensorView& input, TensorView output,
                         const AllgatherOptions& options = {});

  /// Reduces `input` over all ranks and gives each rank its share of the result. A share is a range
  /// of rows (first dimension). Shares are in rank order. If the rows do not divide evenly, the
  /// first `rows % size()` ranks get one row more. All ranks must give the same shape, type and
  /// options. `output` must have shard_rows(rows) rows and must not overlap `input`. `input` is not
  /// changed. kAdasum throws InvalidArgument.
  void reduce_scatter(const ConstTensorView& input, TensorView output,
                      const ReduceScatterOptions& options = {});
  /// The same, without blocking. `input` and `output` must stay alive, and `output` untouched,
  /// until the operation has completed.
  Handle reduce_scatter_async(const ConstTensorView& input, TensorView output,
                              const ReduceScatterOptions& options = {});
  /// The number of rows that this rank gets from a reduce_scatter() of `rows` rows. Not collective.
  std::size_t shard_rows(std::size_t rows) const;

  /// Sends rows (first dimension) of `input` to every rank: the first options.splits[0] rows to
  /// rank 0, the next options.splits[1] rows to rank 1, and so on. `output` receives the rows that
  /// the ranks send to this rank, in rank order. Splits and numbers of rows may differ between
  /// ranks. The other dimensions and the type must be equal. `output` may have more rows than it
  /// receives; the rest of its rows stay unchanged. `input` and `output` must not overlap. `input`
  /// is not changed.
  ///
  /// Returns the number of rows received from each rank, by rank. After alltoall_async(),
  /// AlltoallHandle::received_splits() returns these numbers. The negotiation sends the splits of
  /// all ranks, 8 * size()^2 bytes, to every rank. With up to 64 ranks, splits that are the same as
  /// in the previous operation of this name need not be sent again.
  std::vector<std::size_t> alltoall(const ConstTensorView& input, TensorView output,
                                    const AlltoallOptions& options = {});
  /// The same, without blocking. `input` and `output` must stay alive, and `output` untouched,
  /// until the operation has completed.
  AlltoallHandle alltoall_async(const ConstTensorView& input, TensorView output,
                                const AlltoallOptions& options = {});

  /// Sends `tensor` to rank options.to, which must call recv() with the same name, type and shape.
  /// recv() stores the values in its `tensor`. Only the two ranks take part, and in a process set
  /// both are numbers of members. A rank may send to itself, if one of the two calls is
  /// asynchronous.
  ///
  /// The k-th send() of a name to a rank matches the k-th recv() of that name there. Several
  /// messages of one name may be in flight. Messages of different names, and collectives of the
  /// same name, are independent. recv() has no "any rank" and no "any name".
  ///
  /// send() blocks until the other rank has called recv() and the values have left `tensor`. Two
  /// ranks that both call send() before recv() therefore deadlock: use send_async(). The caller
  /// must keep the memory alive and must not change it, or for recv_async() not access it, until
  /// the operation has completed.
  ///
  /// Cost: each rank sends one header to the other. Tensors of up to 2 KiB travel with the header
  /// of the sender. Larger ones are sent when both ranks have called, without a copy: through the
  /// shared memory of MPI inside a node, and over the network between nodes. The coordinator does
  /// not negotiate messages, because all ranks would then take part in each of them. The first
  /// message of a Context starts a thread, which runs the asynchronous forms and their callbacks
  /// (Handle::then()).
  ///
  /// A tensor in device memory passes through pinned host memory, which each message allocates, so
  /// the other rank may have a tensor in host memory. options.stream is as in AllreduceOptions. The
  /// operation has completed when the values are on the device: wait for it on the host;
  /// Handle::wait_on() throws InvalidArgument.
  ///
  /// Errors: if type or shape differ, both ranks throw MismatchError with the same text, and the
  /// context remains usable. If one of the two ranks has called shutdown(), or closed the process
  /// set, without the matching call, the other throws ShutdownError. A call that is still open when
  /// all ranks have called shutdown() ends with ShutdownError. If the other rank does not call
  /// within HORO_TIMEOUT, or ends, the job ends with a CommunicationError that names it.
  void send(const ConstTensorView& tensor, const SendOptions& options);
  /// The same, without blocking.
  Handle send_async(const ConstTensorView& tensor, const SendOptions& options);
  /// Stores in `tensor` the values that rank options.from sends; see send(). Blocks until they have
  /// arrived.
  void recv(TensorView tensor, const ReceiveOptions& options);
  /// The same, without blocking.
  Handle recv_async(TensorView tensor, const ReceiveOptions& options);

  /// Checks that `tensors`, such as all parameters, have the same bytes on every rank. This finds
  /// replicas that have diverged. Collective: all ranks must give the same names, types and shapes
  /// in the same order. Each rank hashes its tensors on the caller's thread. Tensors in device
  /// memory are first copied to host memory, on options.stream. If the hashes are
  /// equal, the check costs one allreduce of 16 bytes. The probability that a difference goes
  /// undetected is about 2^-64. See CheckEqualOptions::every for calls that skip the check. Blocks.
  ///
  /// Throws MismatchError on every rank if a tensor differs in its bytes, name, type or shape, or
  /// if options.every differs. If only bytes differ, the text names the first tensor that differs,
  /// its most frequent hash, and ranks that have another hash. If several hashes are equally
  /// frequent, the text uses the one that occurs on the lowest rank. Throws InvalidArgument on this
  /// rank if `tensors` is empty, if a tensor has no name or no memory, or if options.every is 0.
  void check_equal(std::span<const NamedTensor> tensors, const CheckEqualOptions& options = {});

  /// Blocks until every rank has called barrier() with the same options.name.
  void barrier(const BarrierOptions& options = {});

  /// For ranks with different numbers of steps: a rank calls join() after its last step.
  /// Collective. Blocks until every rank has called join(). Returns the rank whose call reached
  /// rank 0 last, the same on all ranks.
  ///
  /// Until then, this rank takes part in the sum, average, min, max and product allreduces of the
  /// other ranks, groups included. It contributes values that do not change the result. Averages
  /// are divided by the number of ranks that submitted the operation. All other operations of the
  /// context, including those on device memory, fail with MismatchError on the ranks that submit
  /// them. For the exchanges of a GradientSync, use GradientSync::join().
  ///
  /// While a thread of this rank is in join(), every call on this context that submits an
  /// operation, except shutdown(), throws InvalidArgument. join() throws ShutdownError if another
  /// rank calls shutdown() instead.
  int join();

  /// Allocates memory for this rank that all ranks of this context on the same node have mapped;
  /// see Arena. Collective: all ranks must make these calls in the same order. Each rank gets at
  /// least the largest number of bytes that any rank requests. Blocks. Throws InvalidArgument on
  /// this rank if `bytes` is 0 or above 128 TiB. Throws SharedMemoryError on every rank if a node
  /// has too little shared memory. The context then remains usable.
  Arena allocate(std::size_t bytes);

  /// Makes a group of `ranks` with collectives of its own; see ProcessSet. `ranks` must be a list
  /// of at least one rank of this context, ascending and without repetition. In a ProcessSet, the
  /// ranks are numbers of members. Collective: all ranks of this context, members or not, must make
  /// these calls in the same order and with the same lists. Blocks.
  ///
  /// Throws InvalidArgument on this rank if the list is invalid. Throws MismatchError on every
  /// rank, with two of the lists, if the lists differ. Throws SharedMemoryError on every rank if a
  /// node has too little shared memory. The context then remains usable.
  ProcessSet new_process_set(std::vector<int> ranks);

  /// The numbers of messages, collectives and bytes of this rank since the context was made.
  /// Process sets made from this context are not included: each ProcessSet has its own counters.
  Counters counters() const;

  /// Begins a phase of this rank, such as "data" or "forward". The phase ends with the TraceScope.
  /// If other ranks wait for this rank, stall warnings name its phase. `hororun timeline` shows
  /// phases. Phases nest; the innermost one is reported. Not collective.
  [[nodiscard]] TraceScope phase(std::string_view name);
  /// The same, for work during which the other ranks must wait, such as writing a checkpoint.
  /// During the pause, the watchdog does not report stalls. The timeouts (HORO_TIMEOUT) of all
  /// ranks do not include the pause.
  [[nodiscard]] TraceScope pause(std::string_view name);

  /// Leaves the job. Collective: blocks until every rank has called shutdown(). Closes all process
  /// sets of this context. If another rank has an operation in flight that this rank has not
  /// submitted, that operation fails there with ShutdownError. Operations that this rank submits
  /// after shutdown() has returned fail with ShutdownError. A later call has no effect.
  ///
  /// Memory and connections are released when the Context and all objects made from it, such as
  /// ProcessSets and GradientSyncs, have been destroyed. If horo initialised MPI, the release of
  /// the last Context of the process also finalises MPI. If one of these objects is never
  /// destroyed, MPI is finalised when the process exits with code 0. horo does not finalise MPI if
  /// the shutdown has failed.
  ///
  /// If shutdown() is called while an exception unwinds the stack, it does not wait for the other
  /// ranks. It ends the job instead. The other ranks then get a CommunicationError that names this
  /// rank and, if known, its last error.
  ///
  /// Throws CommunicationError if the job has failed, and InvalidArgument in a completion callback.
  /// The destructor calls shutdown() and logs an error instead of throwing it. If the destructor
  /// runs in a completion callback before shutdown() has returned, it ends the job on all ranks.
  void shutdown();

  /// For classes of horo, such as GradientSync. Throws as RuntimePointer::get() does.
  const std::shared_ptr<Runtime>& runtime() const { return runtime_.get(); }

 protected:
  /// For ProcessSet: a context with this runtime, or with none.
  explicit Context(RuntimePointer runtime);
  /// Whether there is a runtime; see RuntimePointer.
  bool has_runtime() const noexcept { return static_cast<bool>(runtime_); }
  /// Removes and returns the runtime, or returns null if there is none. Later calls throw `why`.
  std::shared_ptr<Runtime> release(std::exception_ptr why) {
    return runtime_.release(std::move(why));
  }

 private:
  void end_job_in_callback();

  RuntimePointer runtime_;
  int exceptions_at_start_ = 0;
};

/// Joins the job that mpirun started. A process that no launcher started is a job of one rank.
/// Collective: blocks until all ranks have called init(). Several contexts may exist at the same
/// time. All ranks must make them in the same order.
///
/// If a rank is missing, one rank of a host logs a warning after HORO_STALL_WARNING, and init()
/// throws CommunicationError after HORO_TIMEOUT. MPI_Init has no timeout. If the process still
/// waits in MPI_Init after HORO_TIMEOUT, horo ends the process with exit code 75.
///
/// Initialises MPI with MPI_THREAD_MULTIPLE, unless the program has initialised it. The program may
/// have any thread level; init() of horo/mpi.h states what each level means. Works on duplicates of
/// MPI_COMM_WORLD. A job without a launcher uses no MPI, unless the program has initialised it.
/// init() of horo/bootstrap.h joins a job without MPI.
///
/// Throws InvalidArgument if the value of a HORO_ variable cannot be used, or if this thread may
/// not call MPI, which the program has initialised with a low thread level. Throws MismatchError on
/// every rank if a setting that must be equal differs between ranks. Throws CommunicationError if
/// MPI fails, was finalised before, or is not the MPI for which horo was built. Also throws
/// CommunicationError if MPI reports one process although the launcher started several: the
/// launcher then belongs to another MPI.
Context init(const InitOptions& options = {});

}  // namespace horo
