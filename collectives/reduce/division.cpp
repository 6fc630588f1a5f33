#include "collectives/reduce/division.h"

#include "collectives/reduce/kernels.h"

namespace horo::collectives {

void divide_if_average(DataType type, ReduceOp op, std::byte* data, std::size_t count, int ranks) {
  if (op != ReduceOp::kAverage) return;
  const std::byte* source = data;
  reduce(type, op, {&source, 1}, count, static_cast<std::size_t>(ranks), data, Stores::kPlain);
}

void divide_if_average(const ScatteredBuffer& buffer, ReduceOp op, int ranks) {
  for (const ScatteredBuffer::Piece& piece : buffer.pieces())
    divide_if_average(buffer.type(), op, piece.data, piece.count, ranks);
}

}  // namespace horo::collectives
