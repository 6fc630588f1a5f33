#include "horo/coordinator/allreduce_response.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "collectives/reduce/division.h"
#include "collectives/reduce/kernels.h"

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

// What the others bring, as this rank, which has submitted nothing, takes part in it.
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

std::vector<DataType> types_of(std::span<const TensorView> tensors) {
  std::vector<DataType> types;
  for (const TensorView& tensor : tensors)
    if (std::ranges::find(types, tensor.type()) == types.end()) types.push_back(tensor.type());
  return types;
}

// In float32: where an average of 16-bit values is in their range, their sum may not be.
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

// Of `present` ranks, with values from the others that change nothing.
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

}  // namespace horo::coordinator
