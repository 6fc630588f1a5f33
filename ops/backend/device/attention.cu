#include <cmath>

#include "horo/device/launch.h"
#include "ops/backend/device/attention.h"
#include "ops/backend/device/fast_math.h"
#include "ops/backend/device/pieces.h"

namespace horo::ops::device_kernels {
namespace {

constexpr unsigned kAttentionThreads = 128;

/// The vector of one position and one head, widened to float. Elements from `size` on are zero, so
/// that loops have a constant length and the vector stays in registers.
template <unsigned kSize>
struct HeadVector {
  float value[kSize];

  template <typename T>
  HORO_KERNEL void load(const T* from, std::size_t size, bool is_aligned) {
    constexpr unsigned kCount = kPerVector<T>;
    for (unsigned d = 0; d < kSize; d += kCount) {
      float piece[kCount] = {};
      if (is_aligned && d < size) {
        load_piece(piece, from + d);
      } else {
        for (unsigned i = 0; i < kCount; ++i)
          if (d + i < size) piece[i] = device::widen(from[d + i]);
      }
      for (unsigned i = 0; i < kCount; ++i) value[d + i] = piece[i];
    }
  }
  template <typename T>
  HORO_KERNEL void store(T* to, std::size_t size, bool is_aligned) const {
    constexpr unsigned kCount = kPerVector<T>;
    for (unsigned d = 0; d < kSize; d += kCount) {
      float piece[kCount];
      for (unsigned i = 0; i < kCount; ++i) piece[i] = value[d + i];
      if (is_aligned && d < size) {
        store_piece(to + d, piece);
      } else {
        for (unsigned i = 0; i < kCount; ++i)
          if (d + i < size) to[d + i] = device::narrow<T>(piece[i]);
      }
    }
  }
  HORO_KERNEL void set_zero() {
    for (float& element : value) element = 0;
  }
  HORO_KERNEL float dot(const HeadVector& other) const {
    float sum = 0;
    for (unsigned d = 0; d < kSize; ++d) sum += value[d] * other.value[d];
    return sum;
  }
  HORO_KERNEL void scale(float factor) {
    for (float& element : value) element *= factor;
  }
  HORO_KERNEL void add(float factor, const HeadVector& other) {
    for (unsigned d = 0; d < kSize; ++d) value[d] += factor * other.value[d];
  }
};

/// Where the vectors of a thread are. Consecutive threads have consecutive positions of a head.
struct HeadRow {
  std::size_t row;  ///< in [batch, heads, positions]
  std::size_t position;
  std::size_t first;     ///< the row of position 0 of the same head
  std::size_t sequence;  ///< in [batch]
  std::size_t head;

  HORO_KERNEL HeadRow(const AttentionShape& shape, std::size_t row_)
      : row(row_),
        position(row_ % shape.positions),
        first(row_ - position),
        sequence(row_ / shape.positions / shape.heads),
        head(row_ / shape.positions % shape.heads) {}
  /// The index of a vector in qkv; `part` 0: query, 1: key, 2: value.
  HORO_KERNEL std::size_t in_qkv(const AttentionShape& shape, std::size_t at,
                                 std::size_t part) const {
    return (((sequence * shape.positions + at) * 3 + part) * shape.heads + head) * shape.head_size;
  }
  HORO_KERNEL std::size_t in_output(const AttentionShape& shape, std::size_t at) const {
    return ((sequence * shape.positions + at) * shape.heads + head) * shape.head_size;
  }
};

template <typename T>
HORO_KERNEL bool are_aligned(const AttentionShape& shape, const T* a, const T* b, const T* c,
                             const T* d) {
  return shape.head_size % kPerVector<T> == 0 && device::is_vector_aligned(a) &&
         device::is_vector_aligned(b) && device::is_vector_aligned(c) &&
         device::is_vector_aligned(d);
}

HORO_KERNEL inline std::size_t count_rows(const AttentionShape& shape) {
  return shape.batch * shape.heads * shape.positions;
}

HORO_KERNEL inline float score_factor(const AttentionShape& shape) {
  return 1 / std::sqrt(static_cast<float>(shape.head_size));
}

/// Each thread computes the output of one query, and adds one key after the other. When the largest
/// score grows, what has been added before is scaled down.
template <typename T, unsigned kSize>
struct AttendFromQuery {
  T* y;
  float* log_sums;
  const T* qkv;
  AttentionShape shape;

  HORO_KERNEL void operator()(const device::ThreadIndex& place) const {
    const std::size_t index = place.block * std::size_t{place.threads} + place.thread;
    if (index >= count_rows(shape)) return;
    const HeadRow at(shape, index);
    const bool aligned = are_aligned<T>(shape, qkv, y, qkv, y);
    HeadVector<kSize> query, other, sum;
    query.load(qkv + at.in_qkv(shape, at.position, 0), shape.head_size, aligned);
    query.scale(score_factor(shape));
    sum.set_zero();
    float largest = -INFINITY, total = 0;
    for (std::size_t key = 0; key <= at.position; ++key) {
      other.load(qkv + at.in_qkv(shape, key, 1), shape.head_size, aligned);
      const float score = query.dot(other);
      if (score > largest) {
        const float factor = fast_exp(largest - score);  // 0 for the first key
        total *= factor;
        sum.scale(factor);
        largest = score;
      }
      const float weight = fast_exp(score - largest);
      total += weight;
      other.load(qkv + at.in_qkv(shape, key, 2), shape.head_size, aligned);
      sum.add(weight, other);
    }
    sum.scale(1 / total);
    sum.store(y + at.in_output(shape, at.position), shape.head_size, aligned);
    log_sums[index] = largest + std::log(total);
  }
};

/// Each thread computes the gradient by one query, and the product of the output and its gradient,
/// which is the mean of the gradients by the probabilities. With p = exp(score - log_sum), the
/// gradient by a score is p (dy * value - product).
template <typename T, unsigned kSize>
struct QueryGradient {
  T* dqkv;
  float* products;
  const T* dy;
  const T* y;
  const T* qkv;
  const float* log_sums;
  AttentionShape shape;

  HORO_KERNEL void operator()(const device::ThreadIndex& place) const {
    const std::size_t index = place.block * std::size_t{place.threads} + place.thread;
    if (index >= count_rows(shape)) return;
    const HeadRow at(shape, index);
    const bool aligned = are_aligned<T>(shape, qkv, y, dy, dqkv);
    const std::size_t output = at.in_output(shape, at.position);
    const float factor = score_factor(shape), log_sum = log_sums[index];
    HeadVector<kSize> query, gradient, other, sum;
    gradient.load(dy + output, shape.head_size, aligned);
    other.load(y + output, shape.head_size, aligned);
    const float product = products[index] = gradient.dot(other);
    query.load(qkv + at.in_qkv(shape, at.position, 0), shape.head_size, aligned);
    query.scale(factor);
    sum.set_zero();
    for (std::size_t key = 0; key <= at.position; ++key) {
      other.load(qkv + at.in_qkv(shape, key, 2), shape.head_size, aligned);
      const float by_weight = gradient.dot(other) - product;
      other.load(qkv + at.in_qkv(shape, key, 1), shape.head_size, aligned);
      sum.add(fast_exp(query.dot(other) - log_sum) * by_weight, other);
    }
    sum.scale(factor);
    sum.store(dqkv + at.in_qkv(shape, at.position, 0), shape.head_size, aligned);
  }
};

/// Each thread computes the gradients by one key and one value, from the last query to the first
/// one that attends to the key. All threads of a warp thus read the same query at the same time.
template <typename T, unsigned kSize>
struct KeyGradient {
  T* dqkv;
  const float* products;
  const T* dy;
  const T* qkv;
  const float* log_sums;
  AttentionShape shape;

  HORO_KERNEL void operator()(const device::ThreadIndex& place) const {
    const std::size_t index = place.block * std::size_t{place.threads} + place.thread;
    if (index >= count_rows(shape)) return;
    const HeadRow at(shape, index);
    const bool aligned = are_aligned<T>(shape, qkv, dy, dqkv, dqkv);
    const float factor = score_factor(shape);
    HeadVector<kSize> key, value, other, key_sum, value_sum;
    key.load(qkv + at.in_qkv(shape, at.position, 1), shape.head_size, aligned);
    key.scale(factor);
    value.load(qkv + at.in_qkv(shape, at.position, 2), shape.head_size, aligned);
    key_sum.set_zero();
    value_sum.set_zero();
    for (std::size_t query = shape.positions; query-- > at.position;) {
      const std::size_t row = at.first + query;
      other.load(qkv + at.in_qkv(shape, query, 0), shape.head_size, aligned);
      const float weight = fast_exp(key.dot(other) - log_sums[row]);
      HeadVector<kSize> gradient;
      gradient.load(dy + at.in_output(shape, query), shape.head_size, aligned);
      value_sum.add(weight, gradient);
      key_sum.add(weight * (gradient.dot(value) - products[row]), other);
    }
    key_sum.scale(factor);
    key_sum.store(dqkv + at.in_qkv(shape, at.position, 1), shape.head_size, aligned);
    value_sum.store(dqkv + at.in_qkv(shape, at.position, 2), shape.head_size, aligned);
  }
};

template <typename Kernel>
void launch_rows(device::Stream& stream, const Kernel& kernel) {
  const std::size_t blocks = (count_rows(kernel.shape) + kAttentionThreads - 1) / kAttentionThreads;
  device::launch(stream, {static_cast<unsigned>(blocks), kAttentionThreads}, kernel);
}

/// Calls launch(std::integral_constant) with the smallest vector that holds a head.
template <typename Launch>
void with_head_size(std::size_t head_size, const Launch& launch) {
  if (head_size <= 16) return launch(std::integral_constant<unsigned, 16>{});
  if (head_size <= 32) return launch(std::integral_constant<unsigned, 32>{});
  if (head_size <= 64) return launch(std::integral_constant<unsigned, 64>{});
  launch(std::integral_constant<unsigned, kMaxHeadSize>{});
}

}  // namespace

template <typename T>
void attention_forward(device::Stream& stream, T* y, float* log_sums, const T* qkv,
                       const AttentionShape& shape) {
  with_head_size(shape.head_size, [&]<unsigned kSize>(std::integral_constant<unsigned, kSize>) {
    launch_rows(stream, AttendFromQuery<T, kSize>{y, log_sums, qkv, shape});
  });
}

template <typename T>
void attention_backward(device::Stream& stream, T* dqkv, const T* dy, const T* y, const T* qkv,
                        const float* log_sums, float* products, const AttentionShape& shape) {
  with_head_size(shape.head_size, [&]<unsigned kSize>(std::integral_constant<unsigned, kSize>) {
    launch_rows(stream, QueryGradient<T, kSize>{dqkv, products, dy, y, qkv, log_sums, shape});
    launch_rows(stream, KeyGradient<T, kSize>{dqkv, products, dy, qkv, log_sums, shape});
  });
}

#define HORO_INSTANTIATE(T)                                                                      \
  template void attention_forward(device::Stream&, T*, float*, const T*, const AttentionShape&); \
  template void attention_backward(device::Stream&, T*, const T*, const T*, const T*,            \
                                   const float*, float*, const AttentionShape&);
HORO_INSTANTIATE(float)
HORO_INSTANTIATE(Float16)
HORO_INSTANTIATE(BFloat16)
#undef HORO_INSTANTIATE

}  // namespace horo::ops::device_kernels
