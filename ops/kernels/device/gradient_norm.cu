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

void measure_gradients(device::Stream& stream, std::span<const GradientGroup> groups,
                       std::span<double> partial_sums, GradientVerdict* verdict,
                       const GradientMeasure& measure) {
  std::size_t count = 0;
  for (const GradientGroup& group : groups) count += count_partial_sums(group.tensors);
  HORO_CHECK(partial_sums.size() >= count, "measure_gradients: got room for " +
                                               std::to_string(partial_sums.size()) +
                                               " partial sums, wants " + std::to_string(count));
  double* sums = partial_sums.data();
  for (const GradientGroup& group : groups) {
    visit_float_type(group.type, "gradients", [&]<typename T>(T) {
      for_each_table(group.tensors, [&](const TensorTable<GradientTensor>& table) {
        using Kernel = SumSquares<T>;
        device::launch(stream, {table.tiles(), Kernel::kThreads}, Kernel{table, sums, group.scale});
        sums += table.tiles();
      });
    });
  }
  device::launch(stream, {1, JudgeGradients::kThreads},
                 JudgeGradients{partial_sums.data(), count, verdict, measure});
}

void measure_gradients(device::Stream& stream, std::span<const GradientTensor> gradients,
                       DataType type, std::span<double> partial_sums, GradientVerdict* verdict,
                       const GradientMeasure& measure) {
  const GradientGroup group{type, gradients};
  measure_gradients(stream, std::span(&group, 1), partial_sums, verdict, measure);
}

}  // namespace horo::ops::device_kernels
