#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "horo/base/compression.h"
#include "horo/base/gradient_sync_options.h"
#include "horo/base/step_report.h"
#include "horo/context.h"
#include "horo/step_graph.h"

namespace horo {

/// Averages (or otherwise reduces) the same set of gradients every step, in place. The gradients
/// are in host memory, or all in the memory of one device; see "Device memory" below.
///
/// At registration, the gradients are packed into buckets, from the last registered gradient to the
/// first. Backward usually produces them in that order. The buckets and their order are the plan.
/// All ranks exchange the buckets in plan order. The exchange of a bucket can start when all its
/// gradients are ready and the previous bucket has been exchanged. While backward continues, a
/// thread of the GradientSync exchanges the buckets. In wait(), the caller's thread exchanges the
/// rest. Unless an option requires other messages, a step sends only the buckets.
///
/// The result has the same bits in every run, whatever the timing. The exceptions are the options
/// `reorder` and `autotune`; see GradientSyncOptions.
///
/// Gradients in an Arena (Context::allocate()) can be reduced in place in shared memory, without
/// staging; see is_in_place(). This approximately halves the memory traffic inside a node. If such
/// a step is abandoned (by an error, or by the destructor), the values of its gradients may change
/// until the other ranks have abandoned the step too.
///
/// Optional features are steps of several passes (no_sync(), backward_passes_per_step), steps
/// without some of the gradients (find_unused), weights (weighted, join()), clipping (clip_norm)
/// and checks (check_finite). docs/guides/gradient_sync.md describes them with their costs.
///
/// ready() may be called from several threads at the same time. All other functions must be called
/// by one thread at a time, after the calls of ready() for the same pass have returned. The memory
/// of the gradients must stay in place while they are registered. The program must not access a
/// gradient between ready() and the return of the next wait().
///
/// Device memory: streams order the exchange and the other work of the device. The host waits for
/// the device only in wait() and report(), to stay at most two steps ahead, and when buckets change
/// (reorder, autotune, update()).
///
///     const auto gpu = open_gpu(ctx);
///     GradientSync sync(ctx, gradients);   // views with TensorView(data, shape, *gpu)
///     // in backward, when the kernels that compute gradient i are enqueued on `stream`:
///     sync.ready(i, stream);
///     // before the kernels of the optimizer are enqueued:
///     sync.wait_on(stream);
///
/// The device becomes the current device of the calling thread. With several ranks, the constructor
/// allocates two buffers on the device, each with room for the packed gradients of any one bucket.
/// With leave_as_reduced, it allocates one buffer for the packed gradients of all buckets. A bucket
/// is exchanged in chunks of about GradientSyncOptions::chunk_bytes. Large gradients, and gradients
/// that are contiguous in memory on all ranks, can be reduced in place; see
/// GradientSyncOptions::in_place_bytes. One kernel packs the other gradients of a chunk into a
/// fused buffer, and one kernel unpacks them. These kernels also convert and scale. If only one
/// rank takes part, it exchanges nothing and launches no kernel. With
/// weighted, clip_norm or check_finite, kernels examine and scale the gradients in the order of the
/// exchange, and only report() and wait() read their results. compression, kAdasum, tune_wire and
/// the reports of wire and compression require host memory. is_in_place() is false.
class GradientSync {
  struct Impl;

 public:
  /// Collective: every rank must register the same names, shapes, types and options, in the same
  /// order. Otherwise the constructor throws MismatchError on every rank. The text describes the
  /// first difference, with two ranks and their values. Blocks. The ranks match their constructors
  /// by options.name. If the names differ between ranks, the constructors time out.
  ///
  /// Throws InvalidArgument on every rank if the arguments of a rank are invalid. With several
  /// ranks, the text names this rank. Examples are no gradients, an empty or repeated name of a
  /// gradient, gradients that overlap in memory, gradients in different memories, and options that
  /// exclude each other. Throws DeviceError on every rank, with the rank, if a rank cannot allocate
  /// memory of its device, or if the devices cannot be connected.
  GradientSync(Context& context, std::span<const NamedTensor> gradients,
               const GradientSyncOptions& options = {});
  /// The other object must then only be assigned or destroyed.
  GradientSync(GradientSync&&) noexcept;
  /// Destroys the plan of this object first, as the destructor does.
  GradientSync& operator=(GradientSync&&) noexcept;
  /// In device memory, waits until the device has completed the steps that wait_on() or wait() has
  /// ended, and abandons an incomplete step. Ranks that have begun to exchange that step then fail
  /// with CommunicationError. Then frees the resources on the device. If StepGraphs of this object
  /// still exist, all of this happens when the last of them is destroyed.
  ~GradientSync();

  /// Marks gradient `index` (its position in the registered list) as final in this pass. Does not
  /// wait for other ranks. Costs a few atomic operations, and a wake-up of the thread of the
  /// GradientSync if that thread can now exchange a bucket. Throws InvalidArgument if the index is
  /// out of range or the gradient was already marked in this pass.
  void ready(std::size_t index);
  /// The same, but first checks that the gradient has not moved. `gradient` must be the tensor that
  /// the program uses now. If its address, number of elements or type differs from the registered
  /// tensor, ready() throws InvalidArgument and marks nothing. The address differs, for example, if
  /// a framework frees gradients between steps and allocates new ones.
  void ready(std::size_t index, const ConstTensorView& gradient);
  /// Marks a gradient in device memory as final when `stream` has completed the work that is
  /// enqueued on it now. `stream` is a cudaStream_t. With the host stand-in for a GPU, it is
  /// device::Stream::native(). Records an event; does not wait for the device. Throws as
  /// ready(index) does. Also throws InvalidArgument if the gradients are in host memory or if the
  /// stream is in a capture that capture() did not begin, and the error of the exchange if it has
  /// failed. ready() without a stream throws InvalidArgument for gradients in device memory.
  void ready(std::size_t index, void* stream);
  /// Ends a pass. Without backward_passes_per_step and no_sync(), each pass is a step. At the end
  /// of the last pass of a step, wait() blocks until every gradient is reduced. The next step may
  /// begin when wait() has returned. Each gradient must be marked in at least one pass of the step.
  /// The report is valid until the next call of wait(), exchange() or join().
  ///
  /// Throws InvalidArgument, with the first names, if gradients were not marked in the step. With
  /// find_unused, wait() instead sets such gradients to zero before it exchanges them. Throws
  /// CommunicationError if a rank was lost or HORO_TIMEOUT has passed. Throws ShutdownError or
  /// CommunicationError if another rank has destroyed its GradientSync. Throws MismatchError if
  /// another rank calls update() instead. After an error of the exchange, wait() and exchange()
  /// throw the same error until update().
  const StepReport& wait();
  /// Marks every gradient ready and then ends the pass as wait() does. For programs without
  /// computation that could overlap with the exchange.
  const StepReport& exchange();
  /// The same for gradients in device memory, each marked on `stream`, and ends the pass as
  /// wait_on() does.
  void exchange(void* stream);
  /// Returns the report of the latest step. In device memory, first blocks until the device has run
  /// that step. If check_finite is set and a value is not finite, the ranks exchange its origin
  /// here. So with check_finite all ranks must call report(), or end their steps with wait(), after
  /// the same steps. The reference is valid until the next step ends. Throws the error of the
  /// exchange, and InvalidArgument between ready() and the end of the pass.
  const StepReport& report();
  /// Ends a pass of gradients in device memory without waiting for the device: later work of
  /// `stream` starts after every gradient is reduced. After wait_on() has returned, gradients of
  /// the next step may be marked. Blocks until the exchange is enqueued. With several ranks, this
  /// is after the device has completed the exchange of the step before the previous one.
  ///
  /// If the exchange fails later, the later work of the stream reads undefined gradients. Before
  /// the host uses results of that work, it must wait for the work and then call check().
  ///
  /// With find_unused, gradients that were not marked are set to zero in the order of `stream`. If
  /// a step ends with wait(), they are set to zero after the work to which the marks of the step
  /// refer; work that reads their previous values must be complete or ordered before that work.
  ///
  /// Throws as wait() does. If only one rank takes part, throws DeviceError if its device failed.
  /// After a CommunicationError or a DeviceError, nothing is exchanged any more, and later calls
  /// that mark gradients, end steps or launch graphs throw the same error. Throws InvalidArgument
  /// for gradients in host memory.
  void wait_on(void* stream);
  /// Throws the error of the exchange, as wait_on() does, if the exchange has already failed. Does
  /// not block. See wait_on() for when to call check(). Does nothing for gradients in host memory.
  void check();

  /// Captures a whole step of gradients in device memory as a graph. `step` must enqueue its work
  /// on `stream`, or on streams that wait for events recorded on `stream` (Device::capture()).
  /// `step` must call ready() for every gradient and, at the end, wait_on(). The device runs
  /// nothing of the graph before StepGraph::launch(). All ranks must call capture() after the same
  /// step. Steps with and without a graph may follow each other in any order that is the same on
  /// all ranks.
  ///
  /// Run at least one step without a graph first. Otherwise capture() waits until the ranks have
  /// connected, and libraries may not have chosen their kernels yet.
  ///
  /// Rethrows exceptions of `step`. Throws InvalidArgument, with the names, if `step` leaves
  /// gradients unmarked. Also throws InvalidArgument if `step` does not call wait_on(), if
  /// gradients are already marked before, if the gradients are in host memory, if HORO_ALGORITHM is
  /// hierarchical and there are several nodes, or if the host takes part in a step (several passes,
  /// find_unused, weighted, clip_norm, check_finite, and until it ends, reorder or tuning). Throws
  /// DeviceError if the work cannot be captured, for example because `step` waits for the device.
  /// After any of these errors, no capture is active and the object remains usable. Throws errors
  /// of the exchange as wait_on() does.
  [[nodiscard]] StepGraph capture(void* stream, const std::function<void()>& step);

  /// Returns the location of reduced gradient `index` at the end of a step. The location is the
  /// same in every step. Without leave_as_reduced, the location is the gradient's own memory, with
  /// scale 1. With leave_as_reduced, the location is the fused buffer if the gradient is packed,
  /// and the gradient's own memory if the gradient is reduced in place. The contents of a packed
  /// gradient's own memory are then undefined. If only one rank takes part, the location is always
  /// the gradient's own memory, with scale 1.
  ///
  /// In device memory, the values are valid until a gradient of the same bucket is marked in the
  /// next step. Enqueue the work that reads the values before that call of ready(), on the stream
  /// of that call or on a stream whose work that stream waits for. Throws InvalidArgument if the
  /// index is out of range.
  ReducedGradient reduced(std::size_t index) const;

  /// A scope in which passes exchange nothing. In the scope, ready() only marks gradients of the
  /// step. wait() and the end of the scope each end a pass. The first pass after the outermost
  /// scope ends the step, so its wait() exchanges the gradients. The GradientSync must outlive the
  /// NoSync object.
  class NoSync {
   public:
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;
    ~NoSync();

   private:
    friend class GradientSync;
    explicit NoSync(GradientSync& sync);
    Impl* impl_;
  };
  /// Begins a NoSync scope, for gradient accumulation in which the program decides which passes
  /// exchange: `{ auto pause = sync.no_sync(); backward(); }`. Scopes may be nested. Ranks may
  /// accumulate different numbers of passes. Throws InvalidArgument between ready() and wait(), or
  /// if backward_passes_per_step is above 1.
  [[nodiscard]] NoSync no_sync();

  /// Sets this rank's weight, such as its number of samples, for this step and all later steps. The
  /// weight must be at least 0 and at most 1e300. A rank with weight 0 contributes nothing, even if
  /// its gradients are NaN. Throws InvalidArgument if the weight is out of range, if
  /// options.weighted is not set, or between ready() and wait().
  void set_weight(double weight);
  /// Takes part in the steps of the other ranks with weight 0, until all ranks have called join().
  /// For ranks that have data for different numbers of steps. Collective: every rank must call
  /// join() once, after its last step. If an earlier pass of an incomplete step has marked
  /// gradients, join() first exchanges that step with the weight of this rank.
  ///
  /// Calls `after_step` after each step that join() exchanges, except a last step in which no rank
  /// has data. During the call, the gradients hold the results of the step. If `after_step` updates
  /// the parameters, this rank stays up to date. Without such an `after_step`, the program must
  /// broadcast the parameters and the optimizer state from the returned rank. When join() returns,
  /// all gradients are zero.
  ///
  /// Returns the highest rank that had a weight above 0 in the last step in which any rank had one.
  /// Returns -1 if there was no such step since the previous join() or update(). Throws as
  /// set_weight() and wait() do. Also throws InvalidArgument in a NoSync scope.
  ///
  /// In device memory, the gradients of a step hold its results for later work on `stream`, and the
  /// next step follows the work that `after_step` has enqueued on `stream`.
  int join(const std::function<void(const StepReport&)>& after_step = {}, void* stream = nullptr);

  /// The indices of the gradients that this rank did not mark in its latest step, ascending. For
  /// use with find_unused. The next step and update() replace the contents of the vector.
  const std::vector<std::size_t>& unused() const;
  /// Returns unused() of every rank, by rank. Collective: all ranks must call it after the same
  /// step. Costs a gather. Blocks.
  std::vector<std::vector<std::size_t>> unused_by_rank() const;

  /// Registers other gradients in place of the registered ones. Their number, names, types, shapes
  /// and memory may differ. Collective: all ranks must call update() after the same step. Resets
  /// the residuals and factors of compression, wire_report() and compression_report(). Tuning
  /// restarts, unless this GradientSync or the file of HORO_AUTOTUNE has a result for the same
  /// names, shapes and types. Blocks.
  ///
  /// Throws MismatchError and InvalidArgument as the constructor does; the old plan then stays in
  /// use. If another rank calls wait() instead, both calls throw MismatchError. The step is then
  /// lost, and all ranks must call update() before the next step. HORO_ALGORITHM=mpi does not
  /// detect this case, so the ranks time out. Throws InvalidArgument on this rank alone between
  /// ready() and wait() or in an incomplete step of several passes. If the exchange has failed,
  /// update() is allowed there too. Also throws InvalidArgument on this rank alone if StepGraphs
  /// exist. Between devices, connects the ranks again.
  void update(std::span<const NamedTensor> gradients);

  /// The number of buckets of the plan.
  std::size_t bucket_count() const;
  /// The indices of the gradients in bucket `bucket`, in the order of packing. The reference is
  /// valid until the next call of wait(), exchange(), join() or update().
  const std::vector<std::size_t>& bucket(std::size_t bucket) const;
  /// Whether the bucket is reduced in the shared memory in which its gradients lie. True if all
  /// gradients of the bucket lie in arenas of the same context on all ranks and the algorithm
  /// supports this (see Arena). Tuning may change the algorithm. Always false for compressed
  /// buckets and with kAdasum. Small buckets are copied even if the result is true, because copying
  /// is faster: buckets of up to HORO_DIRECT_BYTES, and on several nodes all buckets for which the
  /// ring is not selected.
  bool is_in_place(std::size_t bucket) const;
  /// Whether tuning (GradientSyncOptions::autotune) still searches. False if tuning is off, if the
  /// search has ended, or if there is nothing to tune. After the same step, all ranks get the same
  /// result.
  bool is_tuning() const;
  /// The savings and the rounding errors of a wire type (options.wire or tune_wire) since the
  /// constructor or the latest update(). Must not be called between ready() and wait().
  WireReport wire_report() const;
  /// The savings of options.compression since the constructor or the latest update(). Must not be
  /// called between ready() and wait().
  CompressionReport compression_report() const;

  /// Returns the state that compression keeps on this rank from step to step, for checkpoints:
  /// residuals, factors and the number of steps. With error feedback, the state is about as large
  /// as the compressed gradients. Each rank must save its own state, because the residuals of the
  /// ranks differ. The state can be loaded only on machines of the same byte order. Not collective.
  /// Throws InvalidArgument between ready() and wait().
  std::vector<std::byte> save_compression_state() const;
  /// Continues from a state that this rank saved. The gradients, options.compression and the number
  /// of ranks must be the same as when the state was saved. With the same gradient values, the next
  /// steps then have the same bits as without the interruption. To continue with another number of
  /// ranks, load nothing; residuals then start at zero. Collective. Blocks.
  ///
  /// Throws InvalidArgument on every rank, with the rank and the reason, if the bytes of a rank are
  /// not its state. They may be truncated, or belong to another version, rank, option or gradient.
  /// Throws MismatchError on every rank if the states are not of the same step of one run. These
  /// errors change nothing on any rank. Throws InvalidArgument on this rank alone between ready()
  /// and wait().
  void load_compression_state(std::span<const std::byte> state);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace horo
