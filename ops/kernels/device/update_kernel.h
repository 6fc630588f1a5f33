#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ops/kernels/device/pieces.h"
#include "ops/kernels/device/tensor_table.h"
#include "ops/kernels/device/update.h"
#include "ops/optim/update_rules.h"

namespace horo::ops::device_kernels {

/// There is no copy of the values.
struct NoCopy {};

template <int kStates>
struct UpdateEntry {
  float* value;
  float* state[kStates > 0 ? kStates : 1];
  const void* gradient;
  void* copy;
  std::size_t count;
};

/// AdamW's rule with the step that a clock says.
struct ClockedAdamWRule {
  static constexpr int kStates = AdamWRule::kStates;
  AdamWRule rule;
  const AdamWClock* clock;
};

/// A rule when it is applied.
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

/// One thread counts a step.
struct CountStep {
  AdamWClock* clock;
  float beta1, beta2;
  const std::uint32_t* skip;

  HORO_KERNEL void operator()(const device::Place&) const {
    if (skip != nullptr && *skip != 0) return;
    const std::int64_t step = clock->steps + 1;
    *clock = {step, bias_correction(beta1, step), bias_correction(beta2, step)};
  }
};

/// A block applies `rule` to a tile's values, with their states and gradients.
template <typename Rule, typename Gradient, typename Copy>
struct Update {
  static constexpr unsigned kThreads = 256;
  static constexpr int kStates = Rule::kStates;
  static constexpr int kArrays = std::max(kStates, 1);
  static constexpr bool kHasCopy = !std::is_same_v<Copy, NoCopy>;
  // What a thread has at a time: a word of the narrowest type.
  static constexpr unsigned kElements = kHasCopy ? 8 : kPerWord<Gradient>;
  using Entry = UpdateEntry<kStates>;

  TensorTable<Entry> table;
  Rule rule;
  GradientUse use;

  HORO_KERNEL void operator()(const device::Place& place) const {
    if (use.skip != nullptr && *use.skip != 0) return;
    const float factor = use.factor == nullptr ? 1 : *use.factor;
    const auto now = current(rule);
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
        device::is_word_aligned(entry.value) && device::is_word_aligned(entry.gradient);
    for (int s = 0; s < kStates; ++s)
      is_aligned = is_aligned && device::is_word_aligned(entry.state[s]);
    return is_aligned && (!kHasCopy || device::is_word_aligned(entry.copy));
  }

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

}  // namespace horo::ops::device_kernels
