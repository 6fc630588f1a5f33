#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "horo/base/topology.h"
#include "horo/coordinator/entry.h"
#include "horo/coordinator/negotiation/wire.h"

namespace horo::coordinator {

/// The parts of an allgather.
struct GatheredRows {
  std::vector<std::size_t> bytes_of;  ///< size of each rank's part
  std::size_t bytes = 0;              ///< the sum of bytes_of
  /// The error of this rank if its output does not have `bytes` bytes, otherwise empty. The outputs
  /// of other ranks may have the right size. Therefore this rank first takes part with another
  /// buffer of `bytes` bytes.
  std::string error_text;
};
GatheredRows gathered_rows(const Response& response, const Entry& entry);

/// The parts of an alltoall.
struct ExchangedRows {
  std::vector<std::size_t> bytes_to, bytes_from;  ///< by rank
  std::vector<std::size_t> received;              ///< rows from each rank
  std::size_t bytes = 0;                          ///< total size of the received rows
  /// The error of this rank if its output is smaller than `bytes`, otherwise empty. See
  /// GatheredRows.
  std::string error_text;
};
ExchangedRows exchanged_rows(const Response& response, const Entry& entry,
                             const Topology& topology);

/// Returns the number of elements that each rank receives in a reduce_scatter of an input of
/// `shape`.
std::vector<std::size_t> scattered_counts(const Shape& shape, std::size_t ranks);

}  // namespace horo::coordinator
