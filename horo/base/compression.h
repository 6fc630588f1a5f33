#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace horo {

/// The savings and the error of compression on this rank.
struct CompressionFigures {
  /// Bytes that this rank sends for all gradients of the GradientSync, counted as if n ranks used a
  /// ring. An allreduce counts as 2 (n-1)/n of its bytes, an allgather as n-1 times the rank's own
  /// bytes. The count does not include the savings of a wire type.
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_uncompressed = 0;  ///< the same count without compression
  /// Sums of squares over this rank's values in compressed tensors. `squared_values` is the sum for
  /// the values to send, which are gradients plus residuals of the previous step. `squared_error`
  /// is the sum for the part that was not sent. The unsent parts of several ranks may cancel, so
  /// the error of the result may be smaller.
  double squared_values = 0;
  double squared_error = 0;  ///< see `squared_values`
  /// The number of matrices (kPowerSgd), buckets (kTopK, kInt8) with non-finite values. The byte
  /// counts include them, but the sums of squares do not.
  std::uint64_t non_finite = 0;

  /// The norm of the unsent part divided by the norm of the values to send (Euclidean norms); 0 if
  /// nothing was compressed.
  double relative_error() const {
    return squared_values > 0 ? std::sqrt(squared_error / squared_values) : 0;
  }
  /// The ratio of uncompressed to sent bytes; 1 if nothing was to be sent.
  double compression_rate() const {
    return bytes_sent > 0
               ? static_cast<double>(bytes_uncompressed) / static_cast<double>(bytes_sent)
               : 1;
  }

  /// Adds the figures of other steps or gradients.
  CompressionFigures& operator+=(const CompressionFigures& other) {
    bytes_sent += other.bytes_sent;
    bytes_uncompressed += other.bytes_uncompressed;
    squared_values += other.squared_values;
    squared_error += other.squared_error;
    non_finite += other.non_finite;
    return *this;
  }
};

/// The figures of a GradientSync with compression; see GradientSync::compression_report().
struct CompressionReport {
  CompressionFigures latest_step;  ///< of the latest step that exchanged
  CompressionFigures total;        ///< since the GradientSync was made or last updated
};

/// How a GradientSync compresses gradients. Results are approximate.
///
/// Only float32 gradients are compressed, and only with kAverage or kSum. Other gradients are sent
/// uncompressed. With error feedback, each rank keeps the residual, which is the unsent part of its
/// gradients, and adds the residual to its gradients of the next step. A job of one rank compresses
/// too, so that it trains with the same approximation as a larger job. All ranks end a step with
/// the same bits. A compressed gradient in an Arena is not reduced in place.
///
/// If any rank has a non-finite gradient value, the result is non-finite on all ranks: kPowerSgd
/// sets the whole matrix to NaN, kTopK sends the value, and kInt8 sets the block of 256 values to
/// NaN. The residuals and factors of that matrix, or with kTopK and kInt8 the residuals of the
/// whole bucket, are then not updated.
struct Compression {
  /// The method.
  enum class Kind : std::uint8_t {
    kNone,  ///< all gradients are sent uncompressed
    /// Sends a matrix as two factors of low rank (Vogels, Karimireddy, Jaggi 2019, arXiv
    /// 1905.13727). The first dimension of a tensor gives the rows, all others the columns.
    kPowerSgd,
    /// Sends the values of largest magnitude of each tensor with their indices (Aji, Heafield 2017;
    /// with error feedback, Stich, Cordonnier, Jaggi 2018). Each rank receives the values of all
    /// other ranks, so traffic grows with the number of ranks. For few ranks or a small `fraction`.
    kTopK,
    /// Sends each value in 8 bits, with a scale for each 256 values; sums are in float32. A ring
    /// would round sums at each hop; here each rank's values are rounded once, and the result once.
    /// About a quarter of the bytes of float32. See docs/internals/collectives.md.
    kInt8,
  };

  Kind kind = Kind::kNone;  ///< the method; the other options apply to the methods they name
  /// Keep residuals. They need as much memory as the compressed gradients. Without residuals,
  /// training may stall or lose accuracy.
  bool error_feedback = true;
  /// The number of first steps that are exchanged uncompressed. If gradients change fast at first,
  /// set a few hundred or a thousand, because the factors need some steps to converge.
  std::uint64_t start_step = 0;

  /// kPowerSgd: the number of columns of the factors, at least 1. Limited to the smaller side of a
  /// matrix. A larger value sends more and approximates the matrix better.
  std::size_t rank = 4;
  /// kPowerSgd: a matrix is compressed if the number of its values is more than this many times the
  /// number of values of its factors. At least 1. Vectors and small matrices are therefore sent
  /// uncompressed.
  double min_compression_rate = 2;
  /// kPowerSgd: start each step from the factor of the previous step, as in a power iteration. If
  /// false, start each step from a random factor.
  bool warm_start = true;
  /// kPowerSgd: the seed of the random factors.
  std::uint64_t seed = 0;

  /// kTopK: the fraction of each tensor that is sent, above 0 and at most 1, rounded up to whole
  /// values. A value and its index take 8 bytes.
  double fraction = 0.01;
};

}  // namespace horo
