#include "horo/coordinator/executor.h"

#include <fmt/format.h>

#include <numeric>

#include "collectives/chunks.h"
#include "collectives/reduce/tensor_values.h"
#include "horo/base/error.h"
#include "horo/coordinator/allreduce_response.h"

namespace horo::coordinator {
namespace {

using collectives::ScatteredBuffer;

std::size_t row_elements(const Shape& shape) {
  return std::accumulate(shape.dimensions().begin() + 1, shape.dimensions().end(), std::size_t{1},
                         std::multiplies<>());
}

void allgather(const Response& response, const Entry& entry,
               collectives::Collectives& collectives) {
  const std::size_t row_bytes = row_elements(entry.input.shape()) * size_of(response.type);
  std::vector<std::size_t> bytes_of;
  std::size_t rows = 0;
  for (std::uint64_t own : response.rows_of) {
    bytes_of.push_back(own * row_bytes);
    rows += own;
  }
  // Every rank sees the same total, so every rank whose output has the wrong size fails here; one
  // that alone has it wrong takes part with a buffer of the right size before it reports its
  // mistake.
  const std::size_t total = rows * row_bytes;
  const bool fits = entry.output.bytes() == total;
  std::vector<std::byte> substitute(fits ? 0 : total);
  collectives.allgather(
      {static_cast<const std::byte*>(entry.input.data()), entry.input.bytes()}, bytes_of,
      {fits ? static_cast<std::byte*>(entry.output.data()) : substitute.data(), total});
  HORO_CHECK(
      fits,
      fmt::format("allgather '{}': the ranks' inputs have {} rows together, the output {} has {}",
                  entry.request.name, rows, entry.output.shape().to_string(),
                  entry.output.shape().rank() ? entry.output.shape()[0] : 0));
}

std::vector<TensorView> tensors_of(const std::vector<Entry>& entries) {
  std::vector<TensorView> tensors;
  for (const Entry& entry : entries) {
    if (entry.members.empty()) tensors.push_back(entry.input);
    tensors.insert(tensors.end(), entry.members.begin(), entry.members.end());
  }
  return tensors;
}

void scale(const TensorView& tensor, double factor) {
  if (factor != 1)
    collectives::scale(tensor.type(), static_cast<std::byte*>(tensor.data()), tensor.count(),
                       factor);
}

// Each tensor for itself: those that share a bucket may have different factors.
void scale(const std::vector<Entry>& entries, double ScaleFactors::*factor) {
  for (const Entry& entry : entries) {
    scale(entry.input, entry.request.scale.*factor);
    for (const TensorView& member : entry.members) scale(member, entry.request.scale.*factor);
  }
}

void allreduce(const Response& response, const std::vector<Entry>& entries,
               collectives::Communicator& communicator, const Topology& topology) {
  scale(entries, &ScaleFactors::before);
  allreduce(response, tensors_of(entries), communicator, topology);
  scale(entries, &ScaleFactors::after);
}

void reduce_scatter(const Response& response, const Entry& entry,
                    collectives::Collectives& collectives, std::size_t ranks) {
  const std::size_t row = row_elements(entry.input.shape());
  std::vector<std::size_t> count_of = collectives::chunk_sizes(entry.input.shape()[0], ranks);
  for (std::size_t& count : count_of) count *= row;
  const ScaleFactors& factors = entry.request.scale;
  TensorView input = entry.input;
  std::vector<std::byte> scaled;  // the input stays as it is
  if (factors.before != 1 && input.count() > 0) {
    const auto* values = static_cast<const std::byte*>(input.data());
    scaled.assign(values, values + input.bytes());
    input = TensorView(scaled.data(), input.type(), input.shape());
    scale(input, factors.before);
  }
  collectives.reduce_scatter(static_cast<const std::byte*>(input.data()), response.type, count_of,
                             static_cast<std::byte*>(entry.output.data()), response.op);
  scale(entry.output, factors.after);
}

void alltoall(const Response& response, const Entry& entry, collectives::Collectives& collectives,
              const Topology& topology) {
  const std::size_t row_bytes = row_elements(entry.input.shape()) * size_of(response.type);
  const auto ranks = static_cast<std::size_t>(topology.size);
  const auto own = static_cast<std::size_t>(topology.rank);
  const auto rows_between = [&](std::size_t from, std::size_t to) -> std::size_t {
    return response.rows_of[from * ranks + to];
  };
  std::vector<std::size_t> bytes_to, bytes_from;
  std::size_t rows = 0;
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    bytes_to.push_back(rows_between(own, peer) * row_bytes);
    bytes_from.push_back(rows_between(peer, own) * row_bytes);
    entry.received_splits->push_back(rows_between(peer, own));
    rows += rows_between(peer, own);
  }
  // A rank whose output is too small takes part before it reports its mistake: the others need its
  // blocks.
  const std::size_t total = rows * row_bytes;
  const bool fits = rows <= entry.output.shape()[0];
  std::vector<std::byte> substitute(fits ? 0 : total);
  collectives.alltoall(
      {static_cast<const std::byte*>(entry.input.data()), entry.input.bytes()}, bytes_to,
      {fits ? static_cast<std::byte*>(entry.output.data()) : substitute.data(), total}, bytes_from);
  HORO_CHECK(fits, fmt::format("alltoall '{}': {} rows come to rank {}, its output {} has only {}",
                               entry.request.name, rows, topology.job_rank(topology.rank),
                               entry.output.shape().to_string(), entry.output.shape()[0]));
}

// One launch, whatever the types: copies do not care.
void broadcast(const Response& response, const std::vector<Entry>& entries,
               collectives::Collectives& collectives) {
  ScatteredBuffer buffer(DataType::kUInt8);
  for (const TensorView& tensor : tensors_of(entries)) buffer.add(tensor.data(), tensor.bytes());
  collectives.broadcast(buffer, response.root);
}

}  // namespace

void execute(const Response& response, std::vector<Entry>& entries,
             collectives::Communicator& communicator, const Topology& topology) {
  collectives::Collectives& collectives = communicator.collectives();
  switch (response.kind) {
    case Kind::kAllreduce:
      return allreduce(response, entries, communicator, topology);
    case Kind::kBroadcast:
      return broadcast(response, entries, collectives);
    case Kind::kAllgather:
      return allgather(response, entries.front(), collectives);
    case Kind::kReduceScatter:
      return reduce_scatter(response, entries.front(), collectives,
                            static_cast<std::size_t>(topology.size));
    case Kind::kAlltoall:
      return alltoall(response, entries.front(), collectives, topology);
    case Kind::kBarrier:
      return collectives.barrier();
    case Kind::kTask:
      return entries.front().task(collectives);
    case Kind::kJoin:
      *entries.front().last_to_join = response.root;
      return;
    case Kind::kShutdown:
      return;
  }
}

}  // namespace horo::coordinator
