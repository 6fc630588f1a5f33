#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "horo/base/device/float_conversion.h"
#include "horo/base/device/launch.h"
#include "horo/base/device/words.h"
#include "ops/kernels/device/tensor_table.h"
#include "ops/kernels/device/update.h"

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

/// A block applies `rule` to a tile's values, with their states and gradients.
template <typename Rule, typename Gradient, typename Copy>
struct Update {
  static constexpr unsigned kThreads = 256;
  static constexpr int kStates = Rule::kStates;
  static constexpr bool kHasCopy = !std::is_same_v<Copy, NoCopy>;
  // What a thread has at a time: a word of the narrowest type.
  static constexpr unsigned kElements = kHasCopy ? 8 : 16 / sizeof(Gradient);
  using Entry = UpdateEntry<kStates>;

  TensorTable<Entry> table;
  Rule rule;
  GradientUse use;

  HORO_KERNEL void operator()(const device::Place& place) const {
    if (use.skip != nullptr && *use.skip != 0) return;
    const float scale = use.factor == nullptr ? use.scale : use.scale * *use.factor;
    const std::uint32_t tensor = table.find(place.block);
    const Entry& entry = table.entry[tensor];
    const TileRange range = range_of(table, tensor, place.block);
    std::size_t words_end = range.begin;
    if (is_aligned(entry)) words_end += (range.end - range.begin) / kElements * kElements;
    for (std::size_t i = range.begin + place.thread * kElements; i < words_end;
         i += kThreads * kElements)
      update_words(entry, i, scale);
    for (std::size_t i = words_end + place.thread; i < range.end; i += kThreads)
      update_one(entry, i, scale);
  }

 private:
  HORO_KERNEL static bool is_aligned(const Entry& entry) {
    bool is_aligned =
        device::is_word_aligned(entry.value) && device::is_word_aligned(entry.gradient);
    for (int s = 0; s < kStates; ++s)
      is_aligned = is_aligned && device::is_word_aligned(entry.state[s]);
    return is_aligned && (!kHasCopy || device::is_word_aligned(entry.copy));
  }

  HORO_KERNEL void update_words(const Entry& entry, std::size_t at, float scale) const {
    Gradient gradient[kElements];
    float value[kElements], state[kStates > 0 ? kStates : 1][kElements];
    device::load_words_once(gradient, static_cast<const Gradient*>(entry.gradient) + at);
    device::load_words(value, entry.value + at);
    for (int s = 0; s < kStates; ++s) device::load_words(state[s], entry.state[s] + at);
    for (unsigned e = 0; e < kElements; ++e) {
      float own[kStates > 0 ? kStates : 1];
      for (int s = 0; s < kStates; ++s) own[s] = state[s][e];
      rule(value[e], own, device::widen(gradient[e]) * scale);
      for (int s = 0; s < kStates; ++s) state[s][e] = own[s];
    }
    device::store_words(entry.value + at, value);
    for (int s = 0; s < kStates; ++s) device::store_words(entry.state[s] + at, state[s]);
    if constexpr (kHasCopy) {
      Copy copy[kElements];
      for (unsigned e = 0; e < kElements; ++e) copy[e] = device::narrow<Copy>(value[e]);
      device::store_words(static_cast<Copy*>(entry.copy) + at, copy);
    }
  }

  HORO_KERNEL void update_one(const Entry& entry, std::size_t at, float scale) const {
    float own[kStates > 0 ? kStates : 1];
    for (int s = 0; s < kStates; ++s) own[s] = entry.state[s][at];
    const auto gradient = static_cast<const Gradient*>(entry.gradient)[at];
    rule(entry.value[at], own, device::widen(gradient) * scale);
    for (int s = 0; s < kStates; ++s) entry.state[s][at] = own[s];
    if constexpr (kHasCopy)
      static_cast<Copy*>(entry.copy)[at] = device::narrow<Copy>(entry.value[at]);
  }
};

}  // namespace horo::ops::device_kernels
