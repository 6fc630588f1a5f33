#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/api/gradients/gradient_model.h"

namespace horo {

/// More steps than a search takes.
inline constexpr int kManySteps = 64;

/// The options of a job of this shape in which each of its axes has several values.
inline testing::RunOptions tuned(const JobShape& shape, const std::string& autotune = "on") {
  testing::RunOptions options;
  options.environment = {"HORO_RANKS_PER_NODE=" + std::to_string(shape.per_node),
                         "HORO_BUCKET_BYTES=3000", "HORO_RING_SEGMENT_BYTES=4096",
                         "HORO_LOG_LEVEL=off", "HORO_AUTOTUNE=" + autotune};
  return options;
}

/// Runs steps until the search has ended. Returns their number.
inline int tune_to_end(Context& ctx, GradientSync& sync, WholeModel& model) {
  int step = 0;
  for (; sync.is_tuning() && step < kManySteps; ++step) expect_exact_step(ctx, sync, model, step);
  return step;
}

/// Marks all gradients in an order that differs from the default, so that `reorder` rebuilds the
/// buckets.
inline void mark_in_odd_order(const WholeModel& model, GradientSync& sync) {
  const std::size_t count = model.values.size();
  ASSERT_EQ(count % 2, 1u);
  for (std::size_t k = 0; k < count; ++k) model.ready(sync, (2 * k + 1) % count);
}

/// Runs many steps of a plan. Some ranks call a blocking named operation before wait(), the others
/// after it. `options` must select sums.
inline void cross_with_named_operations(Context& ctx, const GradientSyncOptions& options) {
  WholeModel model;
  GradientSync sync(ctx, model.gradients(), options);
  for (int step = 0; step < kManySteps; ++step) {
    std::vector<std::int32_t> loss = {ctx.rank() + step};
    const auto reduce_loss = [&] {
      ctx.allreduce(TensorView(loss), {.name = "loss", .op = ReduceOp::kSum});
    };
    const bool waits_first = (ctx.rank() + step) % 2 == 0;
    model.compute(ctx.rank(), step);
    mark_in_odd_order(model, sync);
    if (!waits_first) reduce_loss();
    sync.wait();
    if (waits_first) reduce_loss();
    expect_sums(ctx, model, step);
    ASSERT_EQ(loss[0], ctx.size() * (ctx.size() - 1) / 2 + ctx.size() * step);
  }
  EXPECT_FALSE(sync.is_tuning());
}

/// Expects that only the buckets are exchanged: no step times and no named operations.
inline void expect_no_more_messages(Context& ctx, GradientSync& sync, WholeModel& model) {
  constexpr int kSteps = 20;
  const Counters before = ctx.counters();
  for (int step = 0; step < kSteps; ++step) expect_exact_step(ctx, sync, model, step);
  EXPECT_EQ(ctx.counters().collectives - before.collectives, kSteps * sync.bucket_count());
  // The coordinator may still send messages of the last change, fewer than one per step.
  EXPECT_LT(ctx.counters().control_messages_sent - before.control_messages_sent, kSteps / 4);
}

/// The lines of a file, without explanations.
inline std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    if (!line.starts_with('#')) lines.push_back(line);
  return lines;
}

/// `line` with another value of `name`.
inline std::string with_value(const std::string& line, const std::string& name,
                              const std::string& value) {
  std::istringstream words(line);
  std::string result;
  for (std::string word; words >> word;) {
    if (word.starts_with(name + "=")) word = name + "=" + value;
    result += (result.empty() ? "" : " ") + word;
  }
  return result;
}

}  // namespace horo
