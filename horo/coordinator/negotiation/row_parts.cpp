#include "horo/coordinator/negotiation/row_parts.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>

#include "collectives/chunks.h"

namespace horo::coordinator {
namespace {

// Returns the number of elements of a row. Only the first dimension may differ between ranks, so
// this number is equal on all ranks.
std::size_t row_elements(const Shape& shape) {
  return std::accumulate(shape.dimensions().begin() + 1, shape.dimensions().end(), std::size_t{1},
                         std::multiplies<>());
}

}  // namespace

// For an allgather, rows_of contains the number of rows of each rank's input.
GatheredRows gathered_rows(const Response& response, const Entry& entry) {
  const std::size_t row_bytes = row_elements(entry.input.shape()) * size_of(response.type);
  GatheredRows result;
  std::size_t rows = 0;
  for (const std::uint64_t own : response.rows_of) {
    result.bytes_of.push_back(own * row_bytes);
    rows += own;
  }
  result.bytes = rows * row_bytes;
  if (entry.output.bytes() != result.bytes)
    result.error_text = fmt::format(
        "allgather '{}': the inputs of all ranks have {} rows in total, but the output {} has {}",
        entry.request.name, rows, entry.output.shape().to_string(),
        entry.output.shape().rank() ? entry.output.shape()[0] : 0);
  return result;
}

// For an alltoall, rows_of is a matrix. Element (from, to) is the number of rows that rank `from`
// sends to rank `to`.
ExchangedRows exchanged_rows(const Response& response, const Entry& entry,
                             const Topology& topology) {
  const std::size_t row_bytes = row_elements(entry.input.shape()) * size_of(response.type);
  const auto ranks = static_cast<std::size_t>(topology.size);
  const auto own = static_cast<std::size_t>(topology.rank);
  const auto rows_between = [&](std::size_t from, std::size_t to) -> std::size_t {
    return response.rows_of[from * ranks + to];
  };
  ExchangedRows result;
  std::size_t rows = 0;
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    result.bytes_to.push_back(rows_between(own, peer) * row_bytes);
    result.bytes_from.push_back(rows_between(peer, own) * row_bytes);
    result.received.push_back(rows_between(peer, own));
    rows += rows_between(peer, own);
  }
  result.bytes = rows * row_bytes;
  if (rows > entry.output.shape()[0])
    result.error_text =
        fmt::format("alltoall '{}': rank {} receives {} rows, but its output {} has only {}",
                    entry.request.name, topology.job_rank(topology.rank), rows,
                    entry.output.shape().to_string(), entry.output.shape()[0]);
  return result;
}

std::vector<std::size_t> scattered_counts(const Shape& shape, std::size_t ranks) {
  std::vector<std::size_t> count_of = collectives::chunk_sizes(shape[0], ranks);
  for (std::size_t& count : count_of) count *= row_elements(shape);
  return count_of;
}

}  // namespace horo::coordinator
