#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "horo/base/compression.h"
#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"

namespace horo {

/// The options of a GradientSync; the same on all ranks.
struct GradientSyncOptions {
  /// The name by which the ranks match the GradientSync. If empty, the name is "gradients.<k>",
  /// where k counts, from 0, the nameless GradientSyncs that this rank has made in the
  /// Context. If several GradientSyncs of one name exist at the same time, errors and
  /// records call the second one "<name>#2", and so on.
  std::string name;
  /// How the gradients of the ranks are combined. Some options below limit the choice.
  ReduceOp op = ReduceOp::kAverage;
  /// The largest bucket, in bytes. A larger gradient has a bucket of its own. Unset:
  /// HORO_BUCKET_BYTES.
  std::optional<std::size_t> bucket_bytes;
  /// The type in which float32 gradients are sent between nodes: kFloat16 or kBFloat16 halve the
  /// bytes. Unset: float32. Values are added in float32 and rounded at each hop. For kAverage, the
  /// values are divided before they are sent. A sum must stay within the range of the type (65504
  /// for float16). Gradients keep their type inside a node, except with HORO_ALGORITHM=ring. They
  /// also keep it with HORO_ALGORITHM=parameter_server or mpi, and in buckets that are too small
  /// for the ring. By default these are buckets of up to some hundred KiB; see
  /// docs/internals/collectives.md. Not with kAdasum. In device memory, gradients are also sent in
  /// this type inside a node, and partial sums are rounded to this type. It does not apply to
  /// `metrics` there; those of float32 are then in separate buckets.
  std::optional<DataType> wire;
  /// Compress gradients; results are approximate (see Compression). For kAverage and kSum. `wire`
  /// can be combined with kPowerSgd, not with kTopK or kInt8. `wire` then applies to the factors
  /// and to uncompressed gradients, and residuals do not include the rounding to `wire`.
  Compression compression;

  /// The largest first bucket of a step, in bytes. If unset, there is no separate limit. The
  /// exchange of a smaller first bucket starts earlier in backward.
  std::optional<std::size_t> first_bucket_bytes;
  /// After the second step, pack the gradients again, in the order in which rank 0 marked them
  /// ready in the last pass of the first step. Useful if backward does not run from the last
  /// registered gradient to the first. Costs one broadcast in the exchange of the second step.
  /// Packing does not change the bits in the shared memory of a node, but may change them in a
  /// ring. With a ring, results are equal in every run only if rank 0 marks in the same order in
  /// every run, usually from one thread. Off by default for that reason. Not with compression.
  bool reorder = false;

  /// Search in the first steps (at most 60 that exchange) for the bucket size, ring segment and
  /// algorithm with the shortest steps. In device memory, search for the bucket size, `chunk_bytes`
  /// and the number of blocks of NCCL; each step then waits for the device. A choice replaces the
  /// start values only if it is clearly faster. If HORO_AUTOTUNE is a file that has a choice for
  /// these gradients and this job, use that choice. Unset: HORO_AUTOTUNE decides. During the
  /// search, the exchange of each step has one more allreduce, of 8 bytes. Between nodes, the
  /// choice may change the order of additions. Two runs then have the same bits only if both read
  /// the same choice from a file. See docs/guides/autotune.md.
  std::optional<bool> autotune;
  /// The type, kFloat16 or kBFloat16, that tuning may select for float32 gradients between nodes if
  /// this type is faster. Results are then rounded as with `wire`. Requires that `wire` is unset.
  /// Not with kAdasum, kTopK or kInt8.
  std::optional<DataType> tune_wire;

  /// The number of passes (calls of wait()) per step, at least 1. Only the last pass exchanges. The
  /// other passes leave the gradients unchanged, and the caller must accumulate the gradients. horo
  /// does not divide by the number of passes: for an average, scale the loss of each pass by 1 /
  /// passes. If ranks need different numbers of passes, use GradientSync::no_sync().
  std::size_t backward_passes_per_step = 1;
  /// Allow a step to end with gradients that this rank has not marked ready. Before the exchange,
  /// horo sets the memory of these gradients to zero on this rank. GradientSync::unused() and
  /// StepReport::unused_everywhere report them. Without this option, wait() throws. Costs an
  /// allreduce of one byte per gradient in each step. For kAverage, kSum and kAdasum.
  bool find_unused = false;
  /// Weigh the ranks: the result is sum(weight * gradient) / sum(weight), with the weights from
  /// set_weight(), initially 1. Costs an allreduce of 8 bytes per rank before the first bucket. If
  /// the weights of a step differ, the step also costs one more pass over the gradients and one
  /// more rounding. If the weights are equal, the bits are those of an average without weights. For
  /// kAverage of floating point gradients. Required for join().
  bool weighted = false;
  /// If the norm of the reduced gradients (StepReport::norm) is larger than this value, scale the
  /// gradients so that their norm is this value. Must be finite and above 0. The norm costs a pass
  /// over each bucket right after its exchange. Scaling costs a pass over all gradients. Neither
  /// the norm nor the scaling sends messages, because all ranks have the same reduced values. A
  /// step with a non-finite value or norm is not scaled. For kAverage, kSum and kAdasum.
  std::optional<double> clip_norm;
  /// Check that all reduced values are finite. If a value is not finite, StepReport::non_finite
  /// describes its origin. Costs a pass over each bucket before the exchange of the bucket, and a
  /// pass after the exchange. Only a step with such a value sends messages for the check. For
  /// kAverage, kSum and kAdasum, because their results are non-finite if any rank contributes a
  /// non-finite value.
  bool check_finite = false;
  /// Names of registered tensors that are reduced but are not gradients, such as the loss. These
  /// tensors are not included in the norm and are not clipped.
  std::vector<std::string> metrics;

  /// In device memory, a bucket is exchanged in chunks of about this many bytes, at least 1. While
  /// one chunk is in flight, the next chunk is packed and the previous chunk is unpacked.
  std::size_t chunk_bytes = std::size_t{8} << 20;
  /// In device memory, reduce gradients of a bucket in place if they are contiguous, from a
  /// multiple of 16 bytes on, on all ranks, and either have at least this many bytes in total or
  /// are the whole bucket. The rest of a bucket is packed into a buffer, so that one exchange
  /// replaces many small ones. Does not apply to gradients that are sent in another type (see
  /// `wire`). In place, a sum launches no kernel, and an average launches one kernel per chunk.
  /// Unset: all gradients are packed.
  std::optional<std::size_t> in_place_bytes = std::size_t{1} << 20;
  /// Leave the reduced gradients where the exchange has written them: in the fused buffer in the
  /// wire type, or in place. An optimizer must read the gradients there and multiply them by
  /// ReducedGradient::scale; see GradientSync::reduced(). Saves the pass that unpacks and scales.
  /// Needs a buffer for all packed gradients, in place of two buffers for the bucket with the most
  /// packed gradients. Requires floating-point gradients in device memory. Not with weighted,
  /// clip_norm, check_finite, reorder or autotune.
  bool leave_as_reduced = false;
  /// More settings that must be equal on all ranks, such as "learning_rate = 0.1" of an optimizer.
  /// The ranks compare these settings together with the options. If a setting differs, the
  /// constructor throws MismatchError with both texts.
  std::vector<std::string> also_agreed{};
};

}  // namespace horo
