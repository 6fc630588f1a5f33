#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "horo/base/compression.h"
#include "horo/base/compression_report.h"
#include "horo/base/wire_report.h"
#include "horo/context.h"

namespace horo {

struct GradientSyncOptions {
  /// What the ranks match the plan by; empty: "gradients.<k>", k counting the plans of this rank.
  std::string name;
  ReduceOp op = ReduceOp::kAverage;
  /// Gradients are exchanged together up to this many bytes; unset: HORO_BUCKET_BYTES.
  std::optional<std::size_t> bucket_bytes;
  /// What float32 gradients travel as between nodes: kFloat16 or kBFloat16 for half the bytes;
  /// unset: as they are. They are added in float32 and rounded at each hop; averages are divided
  /// before they travel, a sum must stay within what the type holds (65504 for float16). Gradients
  /// keep their type inside a node, in buckets that are too small for the ring (by default up to
  /// some hundred KiB, see docs/collectives.md), and with HORO_ALGORITHM=parameter_server or mpi.
  /// Not with kAdasum.
  std::optional<DataType> wire;
  /// Send less and get approximate results: see Compression. For kAverage and kSum. `wire` goes
  /// together with kPowerSgd, whose factors then travel as that type (their rounding is in no
  /// residual), and not with kTopK.
  Compression compression;
};

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
/// ready() may be called from several threads at once; wait() and exchange() from one, after the
/// calls of ready() they are to cover. The gradients' memory must stay where it is while the
/// GradientSync lives, and must not be touched between ready(i) and the return of wait().
class GradientSync {
 public:
  /// Collective: every rank registers the same names, shapes, types and options, in the same order.
  /// Throws MismatchError, on every rank, that names the first gradient that differs, both ranks
  /// and both descriptions; InvalidArgument for an empty or doubled name, an empty set, or kAdasum
  /// of integers or with a wire type.
  GradientSync(Context& context, std::span<const NamedTensor> gradients,
               const GradientSyncOptions& options = {});
  GradientSync(GradientSync&&) noexcept;
  GradientSync& operator=(GradientSync&&) noexcept;
  ~GradientSync();

  /// Gradient `index` (its place in the registered list) is final for this step. Costs one atomic
  /// decrement; does not block. Throws InvalidArgument if the index is out of range or the gradient
  /// was already marked in this step.
  void ready(std::size_t index);
  /// Blocks until every gradient of the step is reduced; the next step may then begin. Throws
  /// InvalidArgument, naming them, if gradients were not marked ready; CommunicationError if a rank
  /// was lost or HORO_TIMEOUT passed.
  void wait();
  /// Marks every gradient ready and waits: for callers that have nothing to overlap with.
  void exchange();

  std::size_t bucket_count() const;
  /// Indices of the gradients in bucket `bucket`, in the order in which they lie in it.
  const std::vector<std::size_t>& bucket(std::size_t bucket) const;
  /// Whether the bucket is reduced where the node's ranks have it mapped: all its gradients are in
  /// arenas on all ranks, and the algorithm makes use of that, as Arena says. (A bucket of a few
  /// KiB, on several nodes one that is too small for the ring, is copied all the same: that is
  /// faster.) Never with kAdasum.
  bool is_in_place(std::size_t bucket) const;
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
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace horo
