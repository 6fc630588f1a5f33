#include "tests/support/reference_kernels/attention.h"

#include <cmath>

namespace horo::ops::reference {
namespace {

/// `part` 0: query, 1: key, 2: value.
std::size_t in_qkv(const AttentionShape& shape, std::size_t n, std::size_t position,
                   std::size_t part, std::size_t head) {
  return (((n * shape.positions + position) * 3 + part) * shape.heads + head) * shape.head_size;
}

std::size_t in_output(const AttentionShape& shape, std::size_t n, std::size_t position,
                      std::size_t head) {
  return ((n * shape.positions + position) * shape.heads + head) * shape.head_size;
}

double dot(const Values& a, std::size_t first_a, const Values& b, std::size_t first_b,
           std::size_t size) {
  double sum = 0;
  for (std::size_t d = 0; d < size; ++d) sum += a[first_a + d] * b[first_b + d];
  return sum;
}

double factor(const AttentionShape& shape) {
  return 1 / std::sqrt(static_cast<double>(shape.head_size));
}

/// The probabilities with which a query reads its own and earlier positions.
Values weights(const AttentionShape& shape, const Values& qkv, std::size_t n, std::size_t head,
               std::size_t query) {
  Values result(query + 1);
  double sum = 0;
  for (std::size_t key = 0; key <= query; ++key)
    sum += result[key] =
        std::exp(factor(shape) * dot(qkv, in_qkv(shape, n, query, 0, head), qkv,
                                     in_qkv(shape, n, key, 1, head), shape.head_size));
  for (double& weight : result) weight /= sum;
  return result;
}

/// Calls use(sequence, head, query) for each query.
template <typename Use>
void for_each_query(const AttentionShape& shape, Use use) {
  for (std::size_t n = 0; n < shape.batch; ++n)
    for (std::size_t head = 0; head < shape.heads; ++head)
      for (std::size_t query = 0; query < shape.positions; ++query) use(n, head, query);
}

}  // namespace

Values attention(const AttentionShape& shape, const Values& qkv) {
  Values y(shape.batch * shape.positions * shape.width());
  for_each_query(shape, [&](std::size_t n, std::size_t head, std::size_t query) {
    const Values p = weights(shape, qkv, n, head, query);
    for (std::size_t key = 0; key <= query; ++key)
      for (std::size_t d = 0; d < shape.head_size; ++d)
        y[in_output(shape, n, query, head) + d] += p[key] * qkv[in_qkv(shape, n, key, 2, head) + d];
  });
  return y;
}

Values attention_gradient(const AttentionShape& shape, const Values& qkv,
                          const Values& output_gradient) {
  Values gradient(qkv.size());
  const std::size_t size = shape.head_size;
  for_each_query(shape, [&](std::size_t n, std::size_t head, std::size_t query) {
    const Values p = weights(shape, qkv, n, head, query);
    const std::size_t dy = in_output(shape, n, query, head);
    const std::size_t q = in_qkv(shape, n, query, 0, head);
    Values by_weight(query + 1);
    double mean = 0;
    for (std::size_t key = 0; key <= query; ++key) {
      by_weight[key] = dot(output_gradient, dy, qkv, in_qkv(shape, n, key, 2, head), size);
      mean += p[key] * by_weight[key];
    }
    for (std::size_t key = 0; key <= query; ++key) {
      const double by_score = p[key] * (by_weight[key] - mean) * factor(shape);
      const std::size_t k = in_qkv(shape, n, key, 1, head), v = in_qkv(shape, n, key, 2, head);
      for (std::size_t d = 0; d < size; ++d) {
        gradient[q + d] += by_score * qkv[k + d];
        gradient[k + d] += by_score * qkv[q + d];
        gradient[v + d] += p[key] * output_gradient[dy + d];
      }
    }
  });
  return gradient;
}

}  // namespace horo::ops::reference
