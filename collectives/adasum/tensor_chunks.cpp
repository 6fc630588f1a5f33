#include "collectives/adasum/tensor_chunks.h"

#include <cstring>

namespace horo::collectives {
namespace {

// Calls function(address, bytes) for each chunk, in the packed order.
template <typename Function>
void for_each_chunk(const ScatteredBuffer& tensors, std::size_t ranks, Function&& function) {
  const std::size_t width = tensors.element_bytes();
  for (std::size_t rank = 0; rank < ranks; ++rank)
    for (const ScatteredBuffer::Piece& tensor : tensors.pieces()) {
      const Range chunk = chunk_of(tensor.count, ranks, rank);
      function(tensor.data + chunk.begin * width, chunk.count() * width);
    }
}

}  // namespace

TensorChunks::TensorChunks(const ScatteredBuffer& tensors, int ranks)
    : places_(static_cast<std::size_t>(ranks)) {
  for (std::size_t rank = 0; rank < places_.size(); ++rank) {
    std::size_t begin = 0;
    for (const ScatteredBuffer::Piece& tensor : tensors.pieces()) {
      const std::size_t end = begin + chunk_of(tensor.count, places_.size(), rank).count();
      places_[rank].push_back({begin, end});
      begin = end;
    }
  }
}

void TensorChunks::pack(const ScatteredBuffer& tensors, std::byte* packed) const {
  for_each_chunk(tensors, places_.size(), [&](const std::byte* chunk, std::size_t bytes) {
    std::memcpy(packed, chunk, bytes);
    packed += bytes;
  });
}

void TensorChunks::unpack(const std::byte* packed, const ScatteredBuffer& tensors) const {
  for_each_chunk(tensors, places_.size(), [&](std::byte* chunk, std::size_t bytes) {
    std::memcpy(chunk, packed, bytes);
    packed += bytes;
  });
}

}  // namespace horo::collectives
