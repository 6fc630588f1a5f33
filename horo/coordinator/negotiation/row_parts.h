#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "horo/base/topology.h"
#include "horo/coordinator/entry.h"
#include "horo/coordinator/negotiation/wire.h"

namespace horo::coordinator {

/// The sizes of the parts of an allgather.
struct GatheredRows {
  std::vector<std::size_t> bytes_of;  ///< the size of each rank's part
  std::size_t bytes = 0;              ///< the sum of bytes_of
  /// The error of this rank if its output does not have `bytes` bytes, otherwise empty. The outputs
  /// of other ranks may have the right size. Therefore this rank must take part in the collective
  /// with another buffer of `bytes` bytes before it reports the error.
  std::string error_text;
};
GatheredRows gathered_rows(const Response& response, const Entry& entry);

/// The sizes of the parts of an alltoall.
struct ExchangedRows {
  std::vector<std::size_t> bytes_to, bytes_from;  ///< by rank
  std::vector<std::size_t> received;              ///< the number of rows from each rank
  std::size_t bytes = 0;                          ///< the sum of bytes_from
  /// The error of this rank if its output has fewer rows than this rank receives, otherwise empty.
  /// See GatheredRows::error_text.
  std::string error_text;
};
ExchangedRows exchanged_rows(const Response& response, const Entry& entry,
                             const Topology& topology);

/// Returns, by rank, the number of elements that a rank receives in a reduce_scatter of an input
/// with the shape `shape`.
std::vector<std::size_t> scattered_counts(const Shape& shape, std::size_t ranks);

}  // namespace horo::coordinator
