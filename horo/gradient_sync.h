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

namespace horo {

/// Averages (or otherwise reduces) the same set of gradients every step, in place.
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
  /// gradient, gradients that overlap in memory, and options that exclude each other.
  GradientSync(Context& context, std::span<const NamedTensor> gradients,
               const GradientSyncOptions& options = {});
  GradientSync(GradientSync&&) noexcept;
  GradientSync& operator=(GradientSync&&) noexcept;
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
  int join(const std::function<void(const StepReport&)>& after_step = {});

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
  /// update() is allowed there too.
  void update(std::span<const NamedTensor> gradients);

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
