#include <string>

#include "horo/base/error.h"
#include "ops/kernels/device/float_types.h"
#include "ops/kernels/device/gradient_norm.h"
#include "ops/kernels/device/gradient_norm_kernels.h"

namespace horo::ops::device_kernels {

std::size_t count_partial_sums(std::span<const GradientTensor> gradients) {
  std::size_t count = 0;
  for (const GradientTensor& gradient : gradients)
    count += TensorTable<GradientTensor>::tiles_of(gradient.count);
  return count;
}

void measure_gradients(device::Stream& stream, std::span<const GradientTensor> gradients,
                       DataType type, std::span<double> partial_sums, GradientVerdict* verdict,
                       const GradientMeasure& measure) {
  const std::size_t count = count_partial_sums(gradients);
  HORO_CHECK(partial_sums.size() >= count, "measure_gradients: got room for " +
                                               std::to_string(partial_sums.size()) +
                                               " partial sums, wants " + std::to_string(count));
  double* sums = partial_sums.data();
  visit_float_type(type, "gradients", [&]<typename T>(T) {
    for_each_table(gradients, [&](const TensorTable<GradientTensor>& table) {
      using Kernel = SumSquares<T>;
      device::launch(stream, {table.tiles(), Kernel::kThreads}, Kernel{table, sums});
      sums += table.tiles();
    });
  });
  device::launch(stream, {1, JudgeGradients::kThreads},
                 JudgeGradients{partial_sums.data(), count, verdict, measure});
}

}  // namespace horo::ops::device_kernels
