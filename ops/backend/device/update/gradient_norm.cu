#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "horo/base/error.h"
#include "horo/device/block_reduction.h"
#include "ops/backend/device/float_types.h"
#include "ops/backend/device/pieces.h"
#include "ops/backend/device/update/gradient_norm.h"
#include "ops/backend/device/update/tensor_table.h"

namespace horo::ops::device_kernels {
namespace {

/// Each block sums the squares of a tile. The sum is not finite if and only if a value is not
/// finite, since squares of floats are far from the limits of a double.
template <typename T, typename Table>
struct SumSquares {
  static constexpr unsigned kThreads = 256;
  static constexpr unsigned kPhases = 3;
  struct Shared {
    device::BlockReduction<double, kThreads> sum;
  };
  struct Own {};

  Table table;
  double* partial_sums;  // the table's
  float scale;

  template <unsigned kPhase>
  HORO_KERNEL void phase(const device::ThreadIndex& place, Shared& shared, Own&) const {
    if constexpr (kPhase == 0) shared.sum.give(place.thread, sum_of(place));
    if constexpr (kPhase == 1) shared.sum.combine(place.thread);
    if constexpr (kPhase == 2)
      if (place.thread == 0) partial_sums[place.block] = shared.sum.result();
  }

 private:
  HORO_KERNEL double sum_of(const device::ThreadIndex& place) const {
    const std::uint32_t tensor = table.find(place.block);
    const T* data = static_cast<const T*>(table.entry[tensor].data);
    const TileRange range = range_of(table, tensor, place.block);
    double sum = 0;
    const auto add = [&](auto piece, std::size_t at) {
      float values[decltype(piece)::kSize];
      load_piece(values, data + at);
      for (const float one : values) {
        const double value = scaled(one, scale);
        sum += value * value;
      }
    };
    for_each_piece<kGradientPiece>(range.begin, range.end, device::is_vector_aligned(data),
                                   place.thread, kThreads, add);
    return sum;
  }
};

/// One block adds the partial sums and writes the verdict.
struct JudgeGradients {
  static constexpr unsigned kThreads = 256;
  static constexpr unsigned kPhases = 3;
  struct Shared {
    device::BlockReduction<double, kThreads> sum;
  };
  struct Own {};

  const double* partial_sums;
  std::size_t count;
  GradientVerdict* verdict;
  GradientMeasure measure;

  template <unsigned kPhase>
  HORO_KERNEL void phase(const device::ThreadIndex& place, Shared& shared, Own&) const {
    if constexpr (kPhase == 0) {
      double sum = 0;
      for (std::size_t i = place.thread; i < count; i += kThreads) sum += partial_sums[i];
      shared.sum.give(place.thread, sum);
    }
    if constexpr (kPhase == 1) shared.sum.combine(place.thread);
    if constexpr (kPhase == 2)
      if (place.thread == 0) judge(shared.sum.result());
  }

 private:
  HORO_KERNEL void judge(double sum) const {
    const float unscale = measure.loss_scale == nullptr ? 1.0f : 1 / measure.loss_scale->scale;
    const double norm =
        std::sqrt(sum) * static_cast<double>(measure.scale) * static_cast<double>(unscale);
    // x - x is 0 for finite x, and NaN otherwise.
    const float also = measure.also == nullptr ? 0 : *measure.also;
    const bool is_finite = sum - sum == 0 && also - also == 0;
    const double limit = measure.max_norm;
    const double clip = is_finite && norm > limit ? limit / norm : 1.0;
    *verdict = {norm, static_cast<float>(unscale * clip), is_finite ? 0u : 1u, also};
    if (measure.loss_scale != nullptr) adapt(*measure.loss_scale, is_finite);
  }
  // Runs in one thread after the verdict, so the next step reads the new scale without a round trip
  // to the host.
  HORO_KERNEL void adapt(LossScale& loss, bool is_finite) const {
    loss.good_steps = is_finite ? loss.good_steps + 1 : 0;
    if (!is_finite) loss.scale /= 2;
    if (loss.good_steps < measure.growth_interval) return;
    loss.good_steps = 0;
    if (loss.scale < 0x1p120f) loss.scale *= 2;
  }
};

}  // namespace

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
  HORO_CHECK(partial_sums.size() >= count,
             "measure_gradients: room for " + std::to_string(partial_sums.size()) +
                 " partial sums; expected at least " + std::to_string(count));
  double* sums = partial_sums.data();
  for (const GradientGroup& group : groups) {
    visit_float_type(group.type, "gradients", [&]<typename T>(T) {
      for_each_table(group.tensors, [&]<typename Table>(const Table& table) {
        using Kernel = SumSquares<T, Table>;
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
