#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "horo/base/compression.h"
#include "horo/base/data_type.h"
#include "horo/base/reduce_op.h"

namespace horo {

/// How a GradientSync exchanges; the same on all ranks.
struct GradientSyncOptions {
  /// What the ranks match the plan by; empty: "gradients.<k>", k counting the plans of this rank.
  /// Where several plans of one name live at the same time, errors and records call the second
  /// "<name>#2", and so on.
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

  /// The first bucket of a step holds at most this many bytes; unset: as the others. A smaller one
  /// is exchanged sooner after backward begins.
  std::optional<std::size_t> first_bucket_bytes;
  /// After the second step, pack the gradients anew in the order in which rank 0 has marked them
  /// ready in the first one (in its last pass), if backward does not go from the last registered
  /// one to the first. Costs one broadcast, once, with the second step's exchange. Inside a node
  /// the bits are the same whatever the packing. Between nodes they are those of the order, so they
  /// are the same in every run only if rank 0 marks in the same order in every run, from one thread
  /// as a rule; hence not the default. Not with compression.
  bool reorder = false;

  /// Look in the first steps, at most 60 that exchange something, for the bucket size, ring segment
  /// and algorithm with the shortest steps on this job, and stay with what is clearly faster than
  /// the start; or take what HORO_AUTOTUNE's file has. Unset: as HORO_AUTOTUNE says. While it
  /// searches a step costs one more allreduce of 8 bytes, in its exchange, so that wait() waits for
  /// no other rank's wait(); afterwards nothing. Results stay right, but between nodes the order of
  /// summing changes with the choice: two runs have the same bits only if both take their choice
  /// from a file. See docs/autotune.md.
  std::optional<bool> autotune;
  /// Tuning may make float32 gradients travel as this between nodes, kFloat16 or kBFloat16, if that
  /// is faster. Results are then rounded as with `wire`, which is unset. Not with kAdasum or kTopK.
  std::optional<DataType> tune_wire;

  /// How many passes (calls of wait()) make a step: the first ones exchange nothing and leave the
  /// gradients alone, for the caller to add up. Nothing is divided by the number of passes: scale
  /// the loss of each by 1 / passes for an average. Where ranks need different numbers of passes,
  /// use GradientSync::no_sync().
  std::size_t backward_passes_per_step = 1;
  /// Let a step end with gradients that were not marked ready: they count as zero (horo sets their
  /// memory to zero) and are reported. Otherwise wait() refuses. Costs an allreduce of a byte per
  /// gradient in each step. For kAverage and kSum, and kAdasum, to which zero adds nothing.
  bool find_unused = false;
  /// Weigh the ranks: the result is sum(weight * gradient) / sum(weight), with the weights of
  /// set_weight(), 1 by default. Costs an allreduce of 8 bytes per rank before the first bucket,
  /// and if the weights of a step are not equal, one more pass over the gradients and one more
  /// rounding. If they are, the bits are those of the plain average. For kAverage of floating
  /// point; needed for join().
  bool weighted = false;
  /// Scale the reduced gradients so that their norm (StepReport::norm) is at most this; above 0.
  /// The norm costs a pass over each bucket right after its exchange, scaling one over all
  /// gradients, and neither a message: all ranks hold the same values. A step with a value that is
  /// not finite is left as it is. For kAverage, kSum and kAdasum.
  std::optional<double> clip_norm;
  /// Find out whether all reduced values are finite and, if one is not, on which rank, in which
  /// gradient and where it was (StepReport::non_finite). Costs a pass over each bucket before its
  /// exchange and one after it; messages only in a step that has such a value. For kAverage, kSum
  /// and kAdasum, whose results show every such value.
  bool check_finite = false;
  /// Names of registered tensors that are reduced along but are no gradients, such as the loss: not
  /// part of the norm, and not clipped.
  std::vector<std::string> metrics;
};

}  // namespace horo
