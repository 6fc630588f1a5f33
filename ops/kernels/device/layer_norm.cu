#include "ops/kernels/device/layer_norm.h"
#include "ops/kernels/device/layer_norm_columns.h"
#include "ops/kernels/device/layer_norm_rows.h"

namespace horo::ops::device_kernels {
namespace {

// Enough threads that each has a word or two.
template <typename T, template <typename, unsigned> typename Kernel, typename... Arguments>
void launch_by_row(device::Stream& stream, const NormShape& shape, const Arguments&... arguments) {
  const std::size_t words = shape.columns / kPerWord<T>;
  const auto launch = [&]<typename K>(const K& kernel) {
    device::launch(stream, {static_cast<unsigned>(shape.rows), K::kThreads}, kernel);
  };
  if (words <= 64) return launch(Kernel<T, 32>{arguments...});
  if (words <= 256) return launch(Kernel<T, 128>{arguments...});
  launch(Kernel<T, 256>{arguments...});
}

}  // namespace

template <typename T>
void layer_norm_forward(device::Stream& stream, T* y, const T* x, const float* gamma,
                        const float* beta, const NormShape& shape, float epsilon,
                        const NormStatistics& statistics) {
  launch_by_row<T, NormaliseRows>(stream, shape, y, x, gamma, beta, shape.columns, epsilon,
                                  statistics);
}

template <typename T>
void layer_norm_backward(device::Stream& stream, T* dx, const T* dy, const T* x, const float* gamma,
                         const NormShape& shape, const NormStatistics& statistics) {
  launch_by_row<T, NormaliseRowsBackward>(stream, shape, dx, dy, x, gamma, shape.columns,
                                          statistics);
}

std::size_t count_norm_sums(const NormShape& shape) {
  return 2 * shape.columns * SumColumns<float>{nullptr, nullptr, shape, {}, nullptr}.chunks();
}

template <typename T>
void layer_norm_parameters_backward(device::Stream& stream, float* dgamma, float* dbeta,
                                    const T* dy, const T* x, const NormShape& shape,
                                    const NormStatistics& statistics, float* sums) {
  const SumColumns<T> kernel{dy, x, shape, statistics, sums};
  device::launch(
      stream, {static_cast<unsigned>(kernel.chunks() * kernel.strips()), kernel.kThreads}, kernel);
  using Add = AddColumnSums;
  const auto blocks =
      static_cast<unsigned>((2 * shape.columns + Add::kColumns - 1) / Add::kColumns);
  device::launch(stream, {blocks, Add::kThreads},
                 Add{sums, kernel.chunks(), shape.columns, dgamma, dbeta});
}

#define HORO_INSTANTIATE(T)                                                                       \
  template void layer_norm_forward(device::Stream&, T*, const T*, const float*, const float*,     \
                                   const NormShape&, float, const NormStatistics&);               \
  template void layer_norm_backward(device::Stream&, T*, const T*, const T*, const float*,        \
                                    const NormShape&, const NormStatistics&);                     \
  template void layer_norm_parameters_backward(device::Stream&, float*, float*, const T*,         \
                                               const T*, const NormShape&, const NormStatistics&, \
                                               float*);
HORO_INSTANTIATE(float)
HORO_INSTANTIATE(Float16)
HORO_INSTANTIATE(BFloat16)
#undef HORO_INSTANTIATE

}  // namespace horo::ops::device_kernels
