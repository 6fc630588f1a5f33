#pragma once

#include <cmath>
#include <cstdint>

namespace horo {

/// What compression has saved and cost, on this rank.
struct CompressionFigures {
  /// To other ranks, of all gradients of the set, as the ring sends them whatever the algorithm:
  /// 2 (n-1)/n of the bytes of an allreduce over n ranks, n-1 times the own bytes of an allgather.
  /// A wire type is not counted.
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_uncompressed = 0;  ///< what would have been sent without compression
  /// Sums over this rank's values of compressed tensors: of the squares of what was to be sent (the
  /// gradients, with the residuals of the step before), and of what was left out of it. What ranks
  /// leave out may cancel between them, and is then no error of the result.
  double squared_values = 0;
  double squared_error = 0;
  /// Matrices (kPowerSgd) or buckets (kTopK) that had non-finite values. They are in no other sum
  /// but those of bytes.
  std::uint64_t non_finite = 0;

  /// What was left out by the size of the whole (both as Euclidean norms); 0 if nothing was
  /// compressed.
  double relative_error() const {
    return squared_values > 0 ? std::sqrt(squared_error / squared_values) : 0;
  }
  /// How many times fewer bytes were sent; 1 if none would have been.
  double compression_rate() const {
    return bytes_sent > 0
               ? static_cast<double>(bytes_uncompressed) / static_cast<double>(bytes_sent)
               : 1;
  }

  CompressionFigures& operator+=(const CompressionFigures& other) {
    bytes_sent += other.bytes_sent;
    bytes_uncompressed += other.bytes_uncompressed;
    squared_values += other.squared_values;
    squared_error += other.squared_error;
    non_finite += other.non_finite;
    return *this;
  }
};

struct CompressionReport {
  CompressionFigures latest_step;
  CompressionFigures total;  ///< since the GradientSync was made
};

}  // namespace horo
