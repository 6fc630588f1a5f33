#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "horo/base/compression_report.h"
#include "horo/base/step_report.h"
#include "horo/base/wire_report.h"
#include "horo/context.h"
#include "horo/gradient_sync_options.h"

namespace horo {

/// Averages (or otherwise reduces) the same set of gradients every step, in place.
///
/// Registered once, the set becomes a plan: buckets of gradients, last registered first, since
/// backward produces gradients in the reverse of the forward order. A bucket is exchanged as soon
/// as its last gradient is ready, in plan order, on a thread of the GradientSync's own while
/// backward goes on, and on the caller's thread during wait(). No control messages are sent after
/// registration, and the result has the same bits every time, whatever the timing.
///
/// Gradients in an Arena (Context::allocate) are reduced where they lie, without staging: about
/// half the memory traffic inside a node. If such a step is given up (by an error, or by
/// the destructor), their values may still change until the other ranks have given up too.
///
/// Steps may be of several passes (no_sync(), backward_passes_per_step), leave gradients out
/// (find_unused), weigh the ranks (weighted, join()) and be clipped or checked (clip_norm,
/// check_finite); docs/gradient_sync.md says what each costs. None is paid for unless asked for.
///
/// ready() may be called from several threads at once; wait() and exchange() from one, after the
/// calls of ready() they are to cover. The gradients' memory must stay where it is while the
/// GradientSync lives, and must not be touched between ready(i) and the return of wait().
class GradientSync {
  class Impl;

 public:
  /// Collective: every rank registers the same names, shapes, types and options, in the same order.
  /// Throws MismatchError, on every rank, that names the first gradient or option that differs,
  /// both ranks and both values; InvalidArgument, on every rank, that names the rank, for what is
  /// wrong on one: an empty or repeated name, an empty set, gradients that overlap in memory, or
  /// options that do not go together.
  GradientSync(Context& context, std::span<const NamedTensor> gradients,
               const GradientSyncOptions& options = {});
  GradientSync(GradientSync&&) noexcept;
  GradientSync& operator=(GradientSync&&) noexcept;
  ~GradientSync();

  /// Gradient `index` (its place in the registered list) is final for this pass. Costs one atomic
  /// decrement; does not block. Throws InvalidArgument if the index is out of range or the gradient
  /// was already marked in this pass.
  void ready(std::size_t index);
  /// The same, and checks that the gradient is still where it was registered: `gradient` is what
  /// the program has now. Throws InvalidArgument, and marks nothing, if its memory or number of
  /// elements differs, as where a framework drops gradients between steps and allocates them anew.
  void ready(std::size_t index, const ConstTensorView& gradient);
  /// Ends a pass. The last pass of a step (each one is, unless backward_passes_per_step or
  /// no_sync() says otherwise) blocks until every gradient is reduced; the next step may then
  /// begin. A gradient that was marked in any pass of the step takes part. Throws InvalidArgument,
  /// naming them, if gradients were marked in none (see find_unused); CommunicationError if a rank
  /// was lost or HORO_TIMEOUT passed; MismatchError if a rank calls update() instead. The report is
  /// valid until the next call.
  const StepReport& wait();
  /// Marks every gradient ready and waits: for callers that have nothing to overlap with.
  const StepReport& exchange();

  /// While one lives, passes exchange nothing: ready() notes which gradients the step has, wait()
  /// ends a pass, and so does the end of the scope. The first pass after it is exchanged.
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
  /// For gradient accumulation in an order of the caller's own: `{ auto pause = sync.no_sync();
  /// backward(); }`. Scopes may be nested. Ranks may accumulate different numbers of passes. Throws
  /// InvalidArgument between ready() and wait(), or with backward_passes_per_step above 1.
  [[nodiscard]] NoSync no_sync();

  /// This rank's weight from this step on, such as its number of samples; at least 0. A rank of
  /// weight 0 adds nothing, whatever its gradients hold. Throws InvalidArgument without
  /// options.weighted, or between ready() and wait().
  void set_weight(double weight);
  /// For a rank whose data has ended before the others': takes part in their steps with weight 0
  /// until all ranks have called join(). Returns the highest of the ranks that took the last step,
  /// or -1 if there was none since the last join(). Collective; all ranks call it once, after their
  /// last step, however many steps each has taken; passes that wait for the rest of their step are
  /// exchanged first. `after_step` is called after each step of the others, with its results in the
  /// gradients: a rank that updates its parameters there keeps up. Otherwise broadcast parameters
  /// and optimizer state from the rank returned. Throws as set_weight() and wait() do.
  int join(const std::function<void(const StepReport&)>& after_step = {});

  /// With find_unused: indices of the gradients that this rank did not mark in its latest step,
  /// ascending.
  const std::vector<std::size_t>& unused() const;
  /// unused() of every rank, by rank. Collective, after the same step on all ranks; not free.
  std::vector<std::vector<std::size_t>> unused_by_rank() const;

  /// Registers other gradients in place of those registered: other shapes, fewer or more of them,
  /// or other memory. Collective; all ranks call it after the same step. Throws as the constructor
  /// does, and then the former plan stays; MismatchError also if a rank goes on exchanging instead,
  /// on that rank in wait(): then none of them hangs, and once all ranks call update() they go on.
  /// What compression keeps from step to step begins anew, and so does tuning, unless this job has
  /// tuned gradients of the same names, shapes and types before. Throws InvalidArgument between
  /// ready() and wait() or in a step of several passes, but after an error it may always be called.
  void update(std::span<const NamedTensor> gradients);

  std::size_t bucket_count() const;
  /// Indices of the gradients in bucket `bucket`, in the order in which they lie in it.
  const std::vector<std::size_t>& bucket(std::size_t bucket) const;
  /// Whether the bucket is reduced where the node's ranks have it mapped: all its gradients are in
  /// arenas on all ranks, and the algorithm makes use of that, as Arena says. (A bucket of a few
  /// KiB, on several nodes one that is too small for the ring, is copied all the same: that is
  /// faster.) Never with kAdasum.
  bool is_in_place(std::size_t bucket) const;
  /// Whether tuning (GradientSyncOptions::autotune) still tries other choices; false once it has
  /// ended, and where it has nothing to try. The same on all ranks after the same step.
  bool is_tuning() const;
  /// What options.wire has saved and cost so far. Not between ready() and wait().
  WireReport wire_report() const;
  /// What options.compression has saved and cost. Not between ready() and wait().
  CompressionReport compression_report() const;

  /// What compression keeps of this rank from step to step (residuals, factors and the number of
  /// steps), for checkpoints: about as many bytes as the gradients that are compressed. Each rank
  /// saves its own, as residuals differ. For machines of the same byte order. Without compression a
  /// few bytes. Not collective. Throws InvalidArgument between ready() and wait().
  std::vector<std::byte> save_compression_state() const;
  /// Goes on from a state that this rank saved, with the same gradients, options and number of
  /// ranks: the next steps have the bits that they would have had. To go on with another number of
  /// ranks, load nothing; residuals then begin at zero. Collective. Throws on every rank alike, and
  /// changes nothing on any: InvalidArgument that names the rank and what is wrong if bytes are no
  /// state, cut off, of another version, rank, option or gradient; MismatchError if the ranks'
  /// states are not of the same step; InvalidArgument, on this rank, between ready() and wait().
  void load_compression_state(std::span<const std::byte> state);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace horo
