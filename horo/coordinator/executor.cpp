#include "horo/coordinator/executor.h"

#include "collectives/reduce/tensor_values.h"
#include "horo/base/error.h"
#include "horo/coordinator/allreduce_response.h"
#include "horo/coordinator/row_parts.h"

namespace horo::coordinator {
namespace {

using collectives::ScatteredBuffer;

void allgather(const Response& response, const Entry& entry,
               collectives::Collectives& collectives) {
  const GatheredRows rows = gathered_rows(response, entry);
  std::vector<std::byte> substitute(rows.mistake.empty() ? 0 : rows.bytes);
  collectives.allgather(
      {static_cast<const std::byte*>(entry.input.data()), entry.input.bytes()}, rows.bytes_of,
      {rows.mistake.empty() ? static_cast<std::byte*>(entry.output.data()) : substitute.data(),
       rows.bytes});
  HORO_CHECK(rows.mistake.empty(), rows.mistake);
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
  const std::vector<std::size_t> count_of = scattered_counts(entry.input.shape(), ranks);
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
  ExchangedRows rows = exchanged_rows(response, entry, topology);
  *entry.received_splits = std::move(rows.received);
  std::vector<std::byte> substitute(rows.mistake.empty() ? 0 : rows.bytes);
  collectives.alltoall(
      {static_cast<const std::byte*>(entry.input.data()), entry.input.bytes()}, rows.bytes_to,
      {rows.mistake.empty() ? static_cast<std::byte*>(entry.output.data()) : substitute.data(),
       rows.bytes},
      rows.bytes_from);
  HORO_CHECK(rows.mistake.empty(), rows.mistake);
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
