#include "ops/kernels/device/cross_entropy.h"
#include "ops/kernels/device/cross_entropy_kernels.h"

namespace horo::ops::device_kernels {
namespace {

template <typename T, unsigned kThreads>
void score_rows(device::Stream& stream, const T* logits, const std::int32_t* labels,
                const CrossEntropy& shape, T* gradient, RowScore* row_scores) {
  using Kernel = ScoreRows<T, kThreads>;
  device::launch(stream, {static_cast<unsigned>(shape.rows), kThreads},
                 Kernel{logits, labels, gradient, row_scores, shape.classes,
                        static_cast<float>(1 / shape.normaliser), shape.loss_scale});
}

}  // namespace

template <typename T>
void softmax_cross_entropy(device::Stream& stream, const T* logits, const std::int32_t* labels,
                           const CrossEntropy& shape, T* gradient, RowScore* row_scores,
                           BatchScore* score) {
  if (shape.classes <= 256)
    score_rows<T, 32>(stream, logits, labels, shape, gradient, row_scores);
  else if (shape.classes <= 8192)
    score_rows<T, 256>(stream, logits, labels, shape, gradient, row_scores);
  else
    score_rows<T, 1024>(stream, logits, labels, shape, gradient, row_scores);
  device::launch(stream, {1, AddScores::kThreads},
                 AddScores{row_scores, shape.rows, shape.normaliser, score, shape.loss});
}

#define HORO_INSTANTIATE(T)                                                           \
  template void softmax_cross_entropy(device::Stream&, const T*, const std::int32_t*, \
                                      const CrossEntropy&, T*, RowScore*, BatchScore*);
HORO_INSTANTIATE(float)
HORO_INSTANTIATE(Float16)
HORO_INSTANTIATE(BFloat16)
#undef HORO_INSTANTIATE

}  // namespace horo::ops::device_kernels
