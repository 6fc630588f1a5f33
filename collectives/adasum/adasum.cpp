#include "collectives/adasum/adasum.h"

#include "collectives/adasum/ordered_sum.h"
#include "collectives/adasum/projections.h"
#include "collectives/reduce/kernels.h"
#include "collectives/staging.h"
#include "horo/base/error.h"

namespace horo::collectives {

void Adasum::allreduce(const ScatteredBuffer& tensors) {
  HORO_CHECK(is_floating(tensors.type()), "Adasum is for floating point");
  if (size_ == 1 || tensors.count() == 0) return;
  const TensorChunks chunks(tensors, size_);
  const auto ranks = static_cast<std::size_t>(size_);
  const std::size_t own_bytes = chunks.count_of(rank_) * tensors.element_bytes();
  std::vector<std::size_t> bytes_of;
  for (int r = 0; r < size_; ++r) bytes_of.push_back(chunks.count_of(r) * tensors.element_bytes());

  const std::span packed(at_least(packed_, tensors.bytes()), tensors.bytes());
  const std::span vectors(at_least(received_, ranks * own_bytes), ranks * own_bytes);
  chunks.pack(tensors, packed.data());
  collectives_.alltoall(packed, bytes_of, vectors, std::vector(ranks, own_bytes));
  combine_all(tensors.type(), chunks, vectors.data());
  collectives_.allgather(vectors.first(own_bytes), bytes_of, packed);
  chunks.unpack(packed.data(), tensors);
}

void Adasum::combine_all(DataType type, const TensorChunks& chunks, std::byte* vectors) {
  if (type == DataType::kFloat64) return combine_tree(chunks, reinterpret_cast<double*>(vectors));
  if (type == DataType::kFloat32) return combine_tree(chunks, reinterpret_cast<float*>(vectors));
  const std::size_t own = chunks.count_of(rank_);
  const std::size_t count = own * static_cast<std::size_t>(size_);
  std::byte* widened = at_least(widened_, count * sizeof(float));
  widen(type, widened, vectors, count);
  combine_tree(chunks, reinterpret_cast<float*>(widened));
  narrow(type, vectors, widened, own);
}

template <typename T>
void Adasum::combine_tree(const TensorChunks& chunks, T* vectors) {
  std::vector<T*> level;
  for (int r = 0; r < size_; ++r)
    level.push_back(vectors + static_cast<std::size_t>(r) * chunks.count_of(rank_));
  while (level.size() > 1) {
    combine_pairs(chunks, level);
    std::vector<T*> next;
    for (std::size_t i = 0; i < level.size(); i += 2) next.push_back(level[i]);
    level = std::move(next);
  }
}

template <typename T>
void Adasum::combine_pairs(const TensorChunks& chunks, const std::vector<T*>& vectors) {
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
