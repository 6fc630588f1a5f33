#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "ops/backend/device/float_types.h"
#include "ops/backend/device/pieces.h"
#include "ops/backend/device/tensor_table.h"
#include "ops/backend/device/update.h"
#include "ops/optim/update_rules.h"

namespace horo::ops::device_kernels {
namespace {

/// The type of the copy if there is none.
struct NoCopy {};

template <int kStates>
struct UpdateEntry {
  float* value;
  float* state[kStates > 0 ? kStates : 1];
  const void* gradient;
  void* copy;
  std::size_t count;
};

/// The rule of AdamW with the step number of a clock.
struct ClockedAdamWRule {
  static constexpr int kStates = AdamWRule::kStates;
  AdamWRule rule;
  const AdamWClock* clock;
};

/// The rule to apply now.
template <typename Rule>
HORO_KERNEL const Rule& current(const Rule& rule) {
  return rule;
}
HORO_KERNEL inline AdamWRule current(const ClockedAdamWRule& clocked) {
  AdamWRule rule = clocked.rule;
  rule.correction1 = clocked.clock->correction1;
  rule.correction2 = clocked.clock->correction2;
  return rule;
}

/// Counts a step in one thread.
struct CountStep {
  AdamWClock* clock;
  float beta1, beta2;
  const std::uint32_t* skip;

  HORO_KERNEL void operator()(const device::ThreadIndex&) const {
    if (skip != nullptr && *skip != 0) return;
    const std::int64_t step = clock->steps + 1;
    *clock = {step, bias_correction(beta1, step), bias_correction(beta2, step)};
  }
};

/// Each block applies `rule` to the values of a tile, with their states and gradients.
template <typename Rule, typename Gradient, typename Copy, typename Table>
struct Update {
  static constexpr unsigned kThreads = 256;
  static constexpr int kStates = Rule::kStates;
  static constexpr int kArrays = std::max(kStates, 1);
  static constexpr bool kHasCopy = !std::is_same_v<Copy, NoCopy>;
  // The elements that a thread handles at a time. Values and states are float32: each of their
  // accesses is one word of 16 bytes, and adjacent threads access adjacent words. Narrower
  // gradients and copies are accessed in half words.
  static constexpr unsigned kElements = kPerVector<float>;
  using Entry = UpdateEntry<kStates>;

  Table table;
  Rule rule;
  GradientUse use;

  HORO_KERNEL void operator()(const device::ThreadIndex& place) const {
    // All blocks read the same flag, so a step is applied completely or not at all.
    if (use.skip != nullptr && *use.skip != 0) return;
    const float factor = use.factor == nullptr ? 1 : *use.factor;
    auto now = current(rule);
    if (use.learning_rate != nullptr) now.learning_rate = *use.learning_rate;
    const std::uint32_t tensor = table.find(place.block);
    const Entry& entry = table.entry[tensor];
    const TileRange range = range_of(table, tensor, place.block);
    for_each_piece<kElements>(
        range.begin, range.end, is_aligned(entry), place.thread, kThreads,
        [&](auto piece, std::size_t at) { update(piece, now, entry, at, factor); });
  }

 private:
  HORO_KERNEL static bool is_aligned(const Entry& entry) {
    bool is_aligned =
        device::is_vector_aligned(entry.value) && device::is_vector_aligned(entry.gradient);
    for (int s = 0; s < kStates; ++s)
      is_aligned = is_aligned && device::is_vector_aligned(entry.state[s]);
    return is_aligned && (!kHasCopy || device::is_vector_aligned(entry.copy));
  }

  // The gradient is not read again, so it bypasses the cache. Values and states are read and
  // written once.
  template <unsigned kSize, typename Applied>
  HORO_KERNEL void update(Piece<kSize>, const Applied& apply, const Entry& entry, std::size_t at,
                          float factor) const {
    float gradient[kSize], value[kSize], state[kArrays][kSize];
    load_piece_once(gradient, static_cast<const Gradient*>(entry.gradient) + at);
    load_piece(value, entry.value + at);
    for (int s = 0; s < kStates; ++s) load_piece(state[s], entry.state[s] + at);
    for (unsigned e = 0; e < kSize; ++e) {
      float own[kArrays];
      for (int s = 0; s < kStates; ++s) own[s] = state[s][e];
      apply(value[e], own, scaled(gradient[e], use.scale) * factor);
      for (int s = 0; s < kStates; ++s) state[s][e] = own[s];
    }
    store_piece(entry.value + at, value);
    for (int s = 0; s < kStates; ++s) store_piece(entry.state[s] + at, state[s]);
    if constexpr (kHasCopy) store_piece(static_cast<Copy*>(entry.copy) + at, value);
  }
};

template <typename Rule>
void update(device::Stream& stream, const std::vector<UpdateEntry<Rule::kStates>>& entries,
            const UpdateTypes& types, const Rule& rule, const GradientUse& use) {
  using Entry = UpdateEntry<Rule::kStates>;
  visit_float_type(types.gradient, "gradients", [&]<typename Gradient>(Gradient) {
    visit_float_type(types.copy, "copies of values", [&]<typename Type>(Type) {
      // float32 stands for "no copy", since a copy of that type would equal the value.
      using Copy = std::conditional_t<std::is_same_v<Type, float>, NoCopy, Type>;
      for_each_table(std::span<const Entry>(entries), [&]<typename Table>(const Table& table) {
        using Kernel = Update<Rule, Gradient, Copy, Table>;
        device::launch(stream, {table.tiles(), Kernel::kThreads}, Kernel{table, rule, use});
      });
    });
  });
}

template <Momentum kMomentum>
void update_with(device::Stream& stream, std::span<const SgdTensor> tensors,
                 const UpdateTypes& types, const SgdOptions& options, const GradientUse& use) {
  using Rule = SgdRule<kMomentum>;
  std::vector<UpdateEntry<Rule::kStates>> entries;
  entries.reserve(tensors.size());
  for (const SgdTensor& tensor : tensors)
    entries.push_back(
        {tensor.value, {tensor.momentum}, tensor.gradient, tensor.copy, tensor.count});
  update(stream, entries, types,
         Rule{options.learning_rate, options.momentum, options.weight_decay}, use);
}

std::vector<UpdateEntry<2>> entries_of(std::span<const AdamWTensor> tensors) {
  std::vector<UpdateEntry<2>> entries;
  entries.reserve(tensors.size());
  for (const AdamWTensor& tensor : tensors)
    entries.push_back({tensor.value,
                       {tensor.first_moment, tensor.second_moment},
                       tensor.gradient,
                       tensor.copy,
                       tensor.count});
  return entries;
}

}  // namespace

void update_sgd(device::Stream& stream, std::span<const SgdTensor> tensors,
                const UpdateTypes& types, const SgdOptions& options, const GradientUse& use) {
  if (options.momentum == 0)
    return update_with<Momentum::kNone>(stream, tensors, types, options, use);
  if (options.nesterov)
    return update_with<Momentum::kNesterov>(stream, tensors, types, options, use);
  update_with<Momentum::kPlain>(stream, tensors, types, options, use);
}

void update_adamw(device::Stream& stream, std::span<const AdamWTensor> tensors,
                  const UpdateTypes& types, const AdamWOptions& options, std::int64_t step,
                  const GradientUse& use) {
  update(stream, entries_of(tensors), types, rule_of(options, step), use);
}

void count_step(device::Stream& stream, const AdamWOptions& options, AdamWClock* clock,
                const std::uint32_t* skip) {
  const AdamWRule rule = rule_of(options, 1);
  device::launch(stream, {1, 1}, CountStep{clock, rule.beta1, rule.beta2, skip});
}

void update_adamw(device::Stream& stream, std::span<const AdamWTensor> tensors,
                  const UpdateTypes& types, const AdamWOptions& options, const AdamWClock* clock,
                  const GradientUse& use) {
  update(stream, entries_of(tensors), types, ClockedAdamWRule{rule_of(options, 1), clock}, use);
}

}  // namespace horo::ops::device_kernels
