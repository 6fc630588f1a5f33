#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "horo/horo.h"
#include "horo/testing.h"
#include "tests/api/error_text.h"
#include "tests/api/gradients/step_memory.h"
#include "tests/support/sanitizer.h"

namespace horo {

/// Gradients of odd sizes. Their values are whole numbers that depend on rank, step, tensor and
/// index, so that sums are exact.
class WholeModel {
 public:
  explicit WholeModel(std::size_t tensors = 11, const StepMemory& where = StepMemory())
      : memory(where) {
    for (std::size_t t = 0; t < tensors; ++t) add((t * t * 37 + t) % 1009 + 1);
  }
  WholeModel(std::size_t tensors, MemoryKind kind) : WholeModel(tensors, StepMemory(kind)) {}
  explicit WholeModel(MemoryKind kind) : WholeModel(11, StepMemory(kind)) {}
  void add(std::size_t count) { values.push_back(memory.values<float>(count)); }
  std::vector<NamedTensor> gradients() {
    std::vector<NamedTensor> named;
    for (std::size_t t = 0; t < values.size(); ++t)
      named.push_back({"layer" + std::to_string(t), memory.view(values[t])});
    return named;
  }
  static float value(int rank, int step, std::size_t t, std::size_t i) {
    return static_cast<float>((rank + 1) * 8 + step * 16 + static_cast<int>(t * 4) +
                              static_cast<int>(i % 64) * 4);
  }
  void compute(int rank, int step) {
    for (std::size_t t = 0; t < values.size(); ++t)
      for (std::size_t i = 0; i < values[t].size(); ++i) values[t][i] = value(rank, step, t, i);
  }
  /// From the last to the first, like backward.
  void mark_all(GradientSync& sync) const {
    for (std::size_t t = values.size(); t-- > 0;) ready(sync, t);
  }
  void ready(GradientSync& sync, std::size_t t) const { memory.ready(sync, t); }
  const StepReport& exchange(GradientSync& sync) const { return memory.exchange(sync); }

  StepMemory memory;
  std::vector<StepMemory::Values<float>> values;
};

/// The gradients of a step are sums over the ranks, to the last bit.
inline void expect_sums(const Context& ctx, const WholeModel& model, int step) {
  for (std::size_t t = 0; t < model.values.size(); ++t)
    for (std::size_t i = 0; i < model.values[t].size(); ++i) {
      float sum = 0;
      for (int r = 0; r < ctx.size(); ++r) sum += WholeModel::value(r, step, t, i);
      ASSERT_EQ(model.values[t][i], sum) << "step " << step << " tensor " << t << " index " << i;
    }
}

/// One step with sums that are checked.
inline void expect_exact_step(Context& ctx, GradientSync& sync, WholeModel& model, int step) {
  model.compute(ctx.rank(), step);
  model.mark_all(sync);
  sync.wait();
  expect_sums(ctx, model, step);
}

/// Numbers of ranks and of ranks per node.
struct JobShape {
  int ranks = 1;
  int per_node = 1;
  MemoryKind memory = MemoryKind::kHost;
  testing::RunOptions options() const {
    testing::RunOptions options;
    options.environment = {"HORO_RANKS_PER_NODE=" + std::to_string(per_node)};
    options.max_delay = std::chrono::microseconds(ranks > per_node ? 200 : 0);
    options.seed = static_cast<std::uint64_t>(ranks * 10 + per_node);
    return options;
  }
};
// Thread sanitizer builds test one shape of each kind, because the memory accesses of a path do not
// depend on the number of ranks: one rank, one node, one rank per node, and several per node.
inline const std::vector<JobShape> kJobShapes =
    kHasThreadSanitizer
        ? std::vector<JobShape>{{1, 1}, {2, 2}, {3, 1}, {4, 2}}
        : std::vector<JobShape>{{1, 1}, {2, 1}, {2, 2}, {3, 1}, {3, 2}, {4, 1}, {4, 2}, {4, 4}};
/// The same shapes for both kinds of memory.
inline const std::vector<JobShape> kStepShapes = [] {
  std::vector<JobShape> shapes = kJobShapes;
  for (JobShape shape : kJobShapes) {
    shape.memory = MemoryKind::kDevice;
    shapes.push_back(shape);
  }
  return shapes;
}();
inline std::string name_of_shape(const ::testing::TestParamInfo<JobShape>& info) {
  return std::to_string(info.param.ranks) + "RanksBy" + std::to_string(info.param.per_node) +
         (info.param.memory == MemoryKind::kDevice ? "OnDevice" : "");
}

}  // namespace horo
