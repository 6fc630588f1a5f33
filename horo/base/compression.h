#pragma once

#include <cstddef>
#include <cstdint>

namespace horo {

/// How a GradientSync shortens what it sends, at the price of an approximate result.
///
/// Only float32 gradients are compressed, by the operations average and sum; others travel as they
/// are. With error feedback every rank keeps what the approximation left out, its residual, and
/// adds it to its gradients of the next step: nothing is lost, it comes later. A job of one rank
/// compresses as well, so that its steps are like those of a larger job. All ranks end a step with
/// the same bits. Memory in an Arena is not reduced in place where it is compressed.
///
/// A non-finite gradient value, on any rank, shows in the result of the step on all ranks: with
/// kPowerSgd the whole matrix becomes NaN, with kTopK the value is among those that are sent. What
/// is kept from step to step then stays as it was before the step (of that matrix; with kTopK, of
/// its bucket), so that a step that the caller skips leaves no trace.
struct Compression {
  enum class Kind : std::uint8_t {
    kNone,
    /// A matrix travels as two factors of low rank (Vogels, Karimireddy, Jaggi 2019, arXiv
    /// 1905.13727). A tensor is a matrix of its first dimension by all others.
    kPowerSgd,
    /// The largest values of each tensor travel, with their places (Aji, Heafield 2017; with error
    /// feedback, Stich, Cordonnier, Jaggi 2018). For few ranks or a small fraction: each rank
    /// receives the values of all others, which grow with the number of ranks.
    kTopK,
  };

  Kind kind = Kind::kNone;
  /// Keep residuals. They take as much memory as the gradients that are compressed. Without them
  /// training may stall or lose accuracy.
  bool error_feedback = true;
  /// That many first steps are exchanged uncompressed. 0, as the algorithms are published; a few
  /// hundred to a thousand help where gradients change fast at first, as a factor that has not
  /// settled lags behind them.
  std::uint64_t start_step = 0;

  /// kPowerSgd: columns of the factors, at least 1; at most the smaller side of a matrix is used.
  /// 1 or 2 is the least traffic, 4 is close to uncompressed training in most models.
  std::size_t rank = 4;
  /// kPowerSgd: a matrix is compressed if its factors have fewer values than it has, by more than
  /// this (at least 1). Vectors and small matrices travel as they are.
  double min_compression_rate = 2;
  /// kPowerSgd: begin with the factor of the step before, one more step of a power iteration.
  /// Otherwise with a random one.
  bool warm_start = true;
  /// kPowerSgd: of the random factors.
  std::uint64_t seed = 0;

  /// kTopK: which part of each tensor is sent, above 0 and at most 1; rounded up to whole values. A
  /// value and its place take 8 bytes.
  double fraction = 0.01;
};

}  // namespace horo
