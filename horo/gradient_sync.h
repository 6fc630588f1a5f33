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
/// At registration, the set becomes a plan: buckets of gradients, packed from the last registered
/// gradient to the first, because backward usually produces them in that order. A bucket is
/// exchanged as soon as its last gradient is ready, in plan order: on a thread of the GradientSync
/// while backward continues, and on the caller's thread in wait(). Ranks send no control messages
/// after registration. The result has the same bits in every run, whatever the timing.
///
/// Gradients in an Arena (Context::allocate()) are reduced in place in shared memory, without
/// staging: about half the memory traffic inside a node. If such a step is abandoned (by an error,
/// or by the destructor), their values may change until the other ranks have abandoned it too.
///
/// Optional: steps of several passes (no_sync(), backward_passes_per_step), steps without some of
/// the gradients (find_unused), weights (weighted, join()), clipping and checks (clip_norm,
/// check_finite). docs/guides/gradient_sync.md describes them with their costs. An option that is
/// not set costs nothing.
///
/// ready() may be called from several threads at the same time. One thread calls all other
/// functions, after the calls of ready() that they cover. The memory of the gradients stays in
/// place while the GradientSync lives, and the program does not access a gradient between ready()
/// and the return of wait().
class GradientSync {
  struct Impl;

 public:
  /// Collective: every rank registers the same names, shapes, types and options, in the same order.
  /// Otherwise throws MismatchError on every rank, with the first gradient or option that differs,
  /// both ranks and both values. Throws InvalidArgument on every rank, with the name of the rank,
  /// if the arguments of one rank are invalid: an empty or repeated name, an empty set, gradients
  /// that overlap in memory, or options that exclude each other.
  GradientSync(Context& context, std::span<const NamedTensor> gradients,
               const GradientSyncOptions& options = {});
  GradientSync(GradientSync&&) noexcept;
  GradientSync& operator=(GradientSync&&) noexcept;
  ~GradientSync();

  /// Marks gradient `index` (its position in the registered list) as final in this pass. Costs one
  /// atomic decrement; does not block. Throws InvalidArgument if the index is out of range or the
  /// gradient was already marked in this pass.
  void ready(std::size_t index);
  /// The same, and checks that the gradient has not moved: `gradient` is the tensor that the
  /// program has now. Throws InvalidArgument and marks nothing if its address, number of elements
  /// or type differs from the registered tensor. That happens if a framework frees gradients
  /// between steps and allocates new ones.
  void ready(std::size_t index, const ConstTensorView& gradient);
  /// Ends a pass. Without backward_passes_per_step and no_sync(), each pass is a step. The last
  /// pass of a step blocks until every gradient is reduced; then the next step may begin. A
  /// gradient takes part if it was marked in any pass of the step. Throws InvalidArgument, naming
  /// them, if gradients were not marked in the step (see find_unused); CommunicationError if a rank
  /// was lost or HORO_TIMEOUT has passed; MismatchError if another rank calls update() instead. The
  /// report is valid until the next call.
  const StepReport& wait();
  /// Marks every gradient ready and waits: for programs without computation to overlap.
  const StepReport& exchange();

  /// A scope in which passes exchange nothing: ready() notes the gradients of the step; wait() and
  /// the end of the scope each end a pass. The first pass after the scope is exchanged.
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
  /// For gradient accumulation in which the program decides which passes exchange:
  /// `{ auto pause = sync.no_sync(); backward(); }`. Scopes may be nested. Ranks may accumulate
  /// different numbers of passes. Throws InvalidArgument between ready() and wait(), or with
  /// backward_passes_per_step above 1.
  [[nodiscard]] NoSync no_sync();

  /// Sets this rank's weight from this step on, such as its number of samples; at least 0 and at
  /// most 1e300. A rank with weight 0 contributes nothing, even if its gradients are NaN. Throws
  /// InvalidArgument without options.weighted, or between ready() and wait().
  void set_weight(double weight);
  /// Takes part in the steps of the other ranks with weight 0, until all ranks have called join().
  /// For ranks that have data for different numbers of steps. Returns the highest of the ranks that
  /// took the last step, or -1 if there was no step since the previous join(). Collective: all
  /// ranks call it once, after their last step. If passes of an incomplete step are left, exchanges
  /// them first. Calls `after_step` after each step of the other ranks, with the results in the
  /// gradients: a rank that updates its parameters there stays up to date. Otherwise broadcast the
  /// parameters and the optimizer state from the returned rank. Throws as set_weight() and wait()
  /// do.
  int join(const std::function<void(const StepReport&)>& after_step = {});

  /// With find_unused: the indices of the gradients that this rank did not mark in its latest step,
  /// ascending.
  const std::vector<std::size_t>& unused() const;
  /// unused() of every rank, by rank. Collective, after the same step on all ranks; costs a gather.
  std::vector<std::vector<std::size_t>> unused_by_rank() const;

  /// Registers other gradients in place of the registered ones: other shapes, another number, or
  /// other memory. Collective; all ranks call it after the same step. Throws as the constructor
  /// does, and the plan then stays as it was. If another rank calls wait() instead, throws
  /// MismatchError, and that rank gets MismatchError from wait(); after that, all ranks may call
  /// update(). Residuals and factors of compression are reset. Tuning restarts, unless
  /// this job has already tuned gradients of the same names, shapes and types. Throws
  /// InvalidArgument between ready() and wait() or in a step of several passes. After an error,
  /// update() is always allowed.
  void update(std::span<const NamedTensor> gradients);

  std::size_t bucket_count() const;
  /// Indices of the gradients in bucket `bucket`, in the order in which they lie in it.
  const std::vector<std::size_t>& bucket(std::size_t bucket) const;
  /// Whether the bucket is reduced in the shared memory in which its gradients lie. Requires that
  /// all its gradients lie in arenas on all ranks, and an algorithm that supports it (see Arena). A
  /// bucket of a few KiB is copied all the same, because that is faster; on several nodes, so is
  /// one that is too small for the ring. Always false with kAdasum.
  bool is_in_place(std::size_t bucket) const;
  /// Whether tuning (GradientSyncOptions::autotune) still searches. False if it has ended or there
  /// is nothing to tune. The same on all ranks after the same step.
  bool is_tuning() const;
  /// The savings and the rounding errors of options.wire so far. Not between ready() and wait().
  WireReport wire_report() const;
  /// The savings of options.compression so far. Not between ready() and wait().
  CompressionReport compression_report() const;

  /// The state that compression keeps on this rank from step to step (residuals, factors and the
  /// number of steps), for checkpoints. About as large as the compressed gradients; a few bytes
  /// without compression. Each rank saves its own state, because residuals differ. The bytes can be
  /// loaded on machines of the same byte order. Not collective. Throws InvalidArgument between
  /// ready() and wait().
  std::vector<std::byte> save_compression_state() const;
  /// Continues from a state that this rank saved, with the same gradients, options and number of
  /// ranks: the next steps then have the same bits as without the interruption. To continue with
  /// another number of ranks, load nothing; residuals then start at zero. Collective. Throws on
  /// every rank, and changes nothing on any: InvalidArgument, with the rank and the reason, if the
  /// bytes of a rank are not its state (truncated, or of another version, rank, option or
  /// gradient); MismatchError if the states are not of the same step. Throws InvalidArgument on
  /// this rank only if it is called between ready() and wait().
  void load_compression_state(std::span<const std::byte> state);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace horo
