#include "horo/coordinator/executor.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "collectives/reduce/kernels.h"
#include "collectives/reduce/tensor_values.h"
#include "horo/base/error.h"
#include "horo/coordinator/negotiation/row_parts.h"

namespace horo::coordinator {

namespace {

using collectives::ScatteredBuffer;

template <typename T>
T identity_of(ReduceOp op) {
  constexpr bool kIs16Bits = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
  if constexpr (kIs16Bits) {
    return T(identity_of<float>(op));
  } else {
    using Limits = std::numeric_limits<T>;
    switch (op) {
      case ReduceOp::kMin:
        return Limits::has_infinity ? Limits::infinity() : Limits::max();
      case ReduceOp::kMax:
        return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
      case ReduceOp::kProduct:
        return T(1);
      default:
        return T(0);
    }
  }
}

// Owns the tensors with which an absent rank takes part in an allreduce. The tensors have the types
// and shapes of the response. Each element has the identity value of the operation.
class Substitutes {
 public:
  Substitutes(const Response& response) {
    for (const Response::Tensor& tensor : response.tensors) {
      const Request& request = tensor.description();
      if (request.members.empty()) add(request.type, request.shape, response.op);
      for (const Request::Member& member : request.members)
        add(member.type, member.shape, response.op);
    }
  }
  std::span<const TensorView> tensors() const { return tensors_; }

 private:
  void add(DataType type, const Shape& shape, ReduceOp op) {
    std::vector<std::byte>& memory = memory_.emplace_back(shape.count() * size_of(type));
    fill_with_identity(type, op, memory.data(), shape.count());
    tensors_.emplace_back(memory.data(), type, shape);
  }
  std::vector<std::vector<std::byte>> memory_;
  std::vector<TensorView> tensors_;
};

// Averages a buffer of a 16-bit floating-point type over the ranks that have data. `present` is the
// number of these ranks. Computes in float32, because the sum of 16-bit values may overflow
// although their average does not.
void average_widened(const ScatteredBuffer& buffer, int present,
                     collectives::Communicator& communicator) {
  std::vector<float> values(buffer.count());
  auto* const wide = reinterpret_cast<std::byte*>(values.data());
  ScatteredBuffer wide_buffer(DataType::kFloat32);
  wide_buffer.add(values.data(), values.size());
  std::size_t at = 0;
  for (const ScatteredBuffer::Piece& piece : buffer.pieces()) {
    collectives::widen(buffer.type(), wide + at, piece.data, piece.count);
    at += piece.count * sizeof(float);
  }
  communicator.allreduce(wide_buffer, ReduceOp::kSum);
  collectives::divide_if_average(wide_buffer, ReduceOp::kAverage, present);
  at = 0;
  for (const ScatteredBuffer::Piece& piece : buffer.pieces()) {
    collectives::narrow(buffer.type(), piece.data, wide + at, piece.count);
    at += piece.count * sizeof(float);
  }
}

// Reduces over all ranks. `present` is the number of ranks that have data. The other ranks
// contribute identity values, so an average is divided by `present`.
void reduce_partially(const ScatteredBuffer& buffer, ReduceOp op, int present,
                      collectives::Communicator& communicator) {
  if (op == ReduceOp::kAverage && size_of(buffer.type()) == 2 && is_floating(buffer.type()))
    return average_widened(buffer, present, communicator);
  communicator.allreduce(buffer, collectives::without_division(op));
  collectives::divide_if_average(buffer, op, present);
}

}  // namespace

void fill_with_identity(DataType type, ReduceOp op, void* data, std::size_t count) {
  visit_type(type, [&](auto zero) {
    using T = decltype(zero);
    std::fill_n(static_cast<T*>(data), count, identity_of<T>(op));
  });
}

std::vector<TensorView> tensors_of(const std::vector<Entry>& entries) {
  std::vector<TensorView> tensors;
  for (const Entry& entry : entries) {
    if (entry.members.empty()) tensors.push_back(entry.input);
    tensors.insert(tensors.end(), entry.members.begin(), entry.members.end());
  }
  return tensors;
}

std::vector<DataType> types_of(std::span<const TensorView> tensors) {
  std::vector<DataType> types;
  for (const TensorView& tensor : tensors)
    if (std::ranges::find(types, tensor.type()) == types.end()) types.push_back(tensor.type());
  return types;
}

// An absent rank takes types and shapes from the response, so it runs the same sequence of
// collectives as the other ranks.
void allreduce(const Response& response, std::span<const TensorView> tensors,
               collectives::Communicator& communicator, const Topology& topology) {
  std::optional<Substitutes> substitutes;
  if (std::ranges::binary_search(response.absent, topology.rank)) {
    substitutes.emplace(response);
    tensors = substitutes->tensors();
  }
  const bool is_partial = !response.absent.empty();
  const int present = topology.size - static_cast<int>(response.absent.size());
  for (const DataType type : types_of(tensors)) {
    ScatteredBuffer buffer(type);
    for (const TensorView& tensor : tensors)
      if (tensor.type() == type) buffer.add(tensor.data(), tensor.count());
    if (is_partial)
      reduce_partially(buffer, response.op, present, communicator);
    else
      communicator.allreduce(buffer, response.op);
  }
}

namespace {

// If the output of this rank has the wrong size, this rank takes part with a substitute and throws
// afterwards. Without the substitute, the other ranks would wait for the rows of this rank.
void allgather(const Response& response, const Entry& entry,
               collectives::Collectives& collectives) {
  const GatheredRows rows = gathered_rows(response, entry);
  std::vector<std::byte> substitute(rows.error_text.empty() ? 0 : rows.bytes);
  collectives.allgather(
      {static_cast<const std::byte*>(entry.input.data()), entry.input.bytes()}, rows.bytes_of,
      {rows.error_text.empty() ? static_cast<std::byte*>(entry.output.data()) : substitute.data(),
       rows.bytes});
  HORO_CHECK(rows.error_text.empty(), rows.error_text);
}

void scale(const TensorView& tensor, double factor) {
  if (factor != 1)
    collectives::scale(tensor.type(), static_cast<std::byte*>(tensor.data()), tensor.count(),
                       factor);
}

// Scales each tensor separately, because the tensors of a bucket may have different factors.
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

// Applies the factors before and after the reduction, as in an allreduce. Copies the input before
// scaling, because the operation must not change the input.
void reduce_scatter(const Response& response, const Entry& entry,
                    collectives::Collectives& collectives, std::size_t ranks) {
  const std::vector<std::size_t> count_of = scattered_counts(entry.input.shape(), ranks);
  const ScaleFactors& factors = entry.request.scale;
  TensorView input = entry.input;
  std::vector<std::byte> scaled;
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

// If the output is too small, uses a substitute as allgather() does.
void alltoall(const Response& response, const Entry& entry, collectives::Collectives& collectives,
              const Topology& topology) {
  ExchangedRows rows = exchanged_rows(response, entry, topology);
  *entry.received_splits = std::move(rows.received);
  std::vector<std::byte> substitute(rows.error_text.empty() ? 0 : rows.bytes);
  collectives.alltoall(
      {static_cast<const std::byte*>(entry.input.data()), entry.input.bytes()}, rows.bytes_to,
      {rows.error_text.empty() ? static_cast<std::byte*>(entry.output.data()) : substitute.data(),
       rows.bytes},
      rows.bytes_from);
  HORO_CHECK(rows.error_text.empty(), rows.error_text);
}

// Broadcasts the tensors of all types in one collective, because a broadcast copies bytes.
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
