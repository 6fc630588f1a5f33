#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "horo/base/topology.h"
#include "horo/coordinator/entry.h"
#include "horo/coordinator/wire.h"

namespace horo::coordinator {

/// Whose bytes an allgather puts where.
struct GatheredRows {
  std::vector<std::size_t> bytes_of;  ///< each rank's
  std::size_t bytes = 0;              ///< their sum
  /// Not empty: the output has not the rows that come, and what to say of it. Every rank sees the
  /// same sum, so every rank whose output has the wrong size finds it; one that alone has it wrong
  /// takes part with a buffer of `bytes` before it reports its mistake.
  std::string mistake;
};
GatheredRows gathered_rows(const Response& response, const Entry& entry);

/// What an alltoall sends and receives.
struct ExchangedRows {
  std::vector<std::size_t> bytes_to, bytes_from;  ///< by rank
  std::vector<std::size_t> received;              ///< rows from each rank
  std::size_t bytes = 0;                          ///< all that come
  /// As in GatheredRows: the others need this rank's blocks.
  std::string mistake;
};
ExchangedRows exchanged_rows(const Response& response, const Entry& entry,
                             const Topology& topology);

/// How many elements of an input of `shape` a reduce_scatter leaves on each rank.
std::vector<std::size_t> scattered_counts(const Shape& shape, std::size_t ranks);

}  // namespace horo::coordinator
