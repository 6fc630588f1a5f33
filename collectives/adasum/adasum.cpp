#include "collectives/adasum/adasum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "collectives/buffers.h"
#include "collectives/chunks.h"
#include "collectives/reduce/kernels.h"
#include "horo/base/error.h"

namespace horo::collectives {

namespace {

// Calls function(address, bytes) for each chunk, in packed order.
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

namespace {

// Each lane has its own sums, so that the compiler can use vector instructions.
template <typename T>
Projections project_lanes(const T* a, const T* b, std::size_t count) {
  constexpr std::size_t kLanes = 8;
  double a_squared[kLanes] = {}, b_squared[kLanes] = {}, a_by_b[kLanes] = {};
  const auto add = [&](std::size_t lane, double x, double y) {
    a_squared[lane] += x * x;
    b_squared[lane] += y * y;
    a_by_b[lane] += x * y;
  };
  const std::size_t even = count - count % kLanes;
  for (std::size_t i = 0; i < even; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(lane, a[i + lane], b[i + lane]);
  for (std::size_t i = even; i < count; ++i) add(i - even, a[i], b[i]);
  Projections sum;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    sum.a_squared += a_squared[lane];
    sum.b_squared += b_squared[lane];
    sum.a_by_b += a_by_b[lane];
  }
  return sum;
}

// Returns the weight of a vector in an Adasum. `squared` is the dot product of the vector with
// itself, and `product` is its dot product with the other vector. If one of the two vectors is
// zero, `product` is 0 and both weights are 1, so the result is the other vector.
double weight(double product, double squared) {
  return squared == 0 ? 1.0 : 1.0 - product / (2 * squared);
}

template <typename T>
void combine_elements(const Projections& whole, T* a, const T* b, std::size_t count) {
  const double a_weight = weight(whole.a_by_b, whole.a_squared);
  const double b_weight = weight(whole.a_by_b, whole.b_squared);
  for (std::size_t i = 0; i < count; ++i)
    a[i] =
        static_cast<T>(a_weight * static_cast<double>(a[i]) + b_weight * static_cast<double>(b[i]));
}

}  // namespace

Projections project(const float* a, const float* b, std::size_t count) {
  return project_lanes(a, b, count);
}
Projections project(const double* a, const double* b, std::size_t count) {
  return project_lanes(a, b, count);
}
void combine(const Projections& whole, float* a, const float* b, std::size_t count) {
  combine_elements(whole, a, b, count);
}
void combine(const Projections& whole, double* a, const double* b, std::size_t count) {
  combine_elements(whole, a, b, count);
}

namespace {

// If the values of all ranks together have at most this size, ordered_sum() uses a single
// allgather, because the number of collectives then determines the cost.
constexpr std::size_t kGatheredBytes = 32 * 1024;

std::vector<std::size_t> bytes_of(std::vector<std::size_t> counts) {
  for (std::size_t& count : counts) count *= sizeof(double);
  return counts;
}

std::span<double> ensure_size(std::vector<double>& memory, std::size_t count) {
  if (memory.size() < count) memory.resize(count);
  return std::span(memory).first(count);
}

// Adds up `parts`, which holds sum.size() values of rank 0, then those of rank 1, and so on. All
// ranks add in this order and therefore compute the same bits.
void add_up(std::span<const double> parts, std::span<double> sum) {
  std::ranges::copy(parts.first(sum.size()), sum.begin());
  for (std::size_t at = sum.size(); at < parts.size(); at += sum.size())
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += parts[at + i];
}

}  // namespace

// In the single allgather, each rank of a ring sends n-1 times the size of its values, where n is
// the number of ranks. In the alltoall and the allgather of sums, each rank sends less than twice
// that size, whatever the number of ranks.
void ordered_sum(Collectives& collectives, int rank, int size, std::span<double> values,
                 OrderedSumStaging& staging) {
  const auto ranks = static_cast<std::size_t>(size);
  if (values.size_bytes() * ranks <= kGatheredBytes) {
    const std::span<double> all = ensure_size(staging.parts, values.size() * ranks);
    collectives.allgather(std::as_bytes(values), std::vector(ranks, values.size_bytes()),
                          std::as_writable_bytes(all));
    return add_up(all, values);
  }
  const std::vector<std::size_t> counts = chunk_sizes(values.size(), ranks);
  const std::span<double> own = ensure_size(staging.own, counts[static_cast<std::size_t>(rank)]);
  const std::span<double> parts = ensure_size(staging.parts, own.size() * ranks);
  collectives.alltoall(std::as_bytes(values), bytes_of(counts), std::as_writable_bytes(parts),
                       std::vector(ranks, own.size() * sizeof(double)));
  add_up(parts, own);
  collectives.allgather(std::as_bytes(own), bytes_of(counts), std::as_writable_bytes(values));
}

// packed_ is used twice: first it holds the chunks that the alltoall sends, then it receives the
// results of the allgather.
void Adasum::allreduce(const ScatteredBuffer& tensors) {
  HORO_CHECK(is_floating(tensors.type()),
             fmt::format("Adasum requires a floating-point type, not {}", name_of(tensors.type())));
  if (size_ == 1 || tensors.count() == 0) return;
  const TensorChunks chunks(tensors, size_);
  const auto ranks = static_cast<std::size_t>(size_);
  const std::size_t own_bytes = chunks.count_of(rank_) * tensors.element_bytes();
  std::vector<std::size_t> bytes_of;
  for (int r = 0; r < size_; ++r) bytes_of.push_back(chunks.count_of(r) * tensors.element_bytes());

  const std::span packed(ensure_size(packed_, tensors.bytes()), tensors.bytes());
  const std::span vectors(ensure_size(received_, ranks * own_bytes), ranks * own_bytes);
  chunks.pack(tensors, packed.data());
  collectives_.alltoall(packed, bytes_of, vectors, std::vector(ranks, own_bytes));
  combine_all(tensors.type(), chunks, vectors.data());
  collectives_.allgather(vectors.first(own_bytes), bytes_of, packed);
  chunks.unpack(packed.data(), tensors);
}

// 16-bit types are widened to float32 once, before the tree. Intermediate results therefore keep
// the precision of float32, and only the final result is rounded to 16 bits.
void Adasum::combine_all(DataType type, const TensorChunks& chunks, std::byte* vectors) {
  if (type == DataType::kFloat64) return combine_tree(chunks, reinterpret_cast<double*>(vectors));
  if (type == DataType::kFloat32) return combine_tree(chunks, reinterpret_cast<float*>(vectors));
  const std::size_t own = chunks.count_of(rank_);
  const std::size_t count = own * static_cast<std::size_t>(size_);
  std::byte* widened = ensure_size(widened_, count * sizeof(float));
  widen(type, widened, vectors, count);
  combine_tree(chunks, reinterpret_cast<float*>(widened));
  narrow(type, vectors, widened, own);
}

// Every rank holds its chunk of all vectors, and all ranks combine the vectors in the same binary
// tree. Adasum is not associative, so another tree would give another result.
template <typename T>
void Adasum::combine_tree(const TensorChunks& chunks, T* vectors) {
  std::vector<T*> level;
  for (int r = 0; r < size_; ++r)
    level.push_back(vectors + static_cast<std::size_t>(r) * chunks.count_of(rank_));
  // The result of a pair replaces the first vector of the pair. If the number of vectors is odd,
  // the last vector moves to the next level unchanged.
  while (level.size() > 1) {
    combine_pairs(chunks, level);
    std::vector<T*> next;
    for (std::size_t i = 0; i < level.size(); i += 2) next.push_back(level[i]);
    level = std::move(next);
  }
}

template <typename T>
void Adasum::combine_pairs(const TensorChunks& chunks, const std::vector<T*>& vectors) {
  // One ordered_sum() for each level covers the dot products of all pairs and tensors.
  const auto for_each_pair = [&](auto&& function) {
    std::size_t index = 0;
    for (std::size_t i = 0; i + 1 < vectors.size(); i += 2)
      for (const Range& tensor : chunks.of_rank(rank_))
        function(index++, vectors[i] + tensor.begin, vectors[i + 1] + tensor.begin, tensor.count());
  };
  std::vector<Projections> all(vectors.size() / 2 * chunks.of_rank(rank_).size());
  for_each_pair([&](std::size_t i, T* a, T* b, std::size_t n) { all[i] = project(a, b, n); });
  ordered_sum(collectives_, rank_, size_, as_doubles(all), sums_);
  for_each_pair([&](std::size_t i, T* a, T* b, std::size_t n) { combine(all[i], a, b, n); });
}

}  // namespace horo::collectives
