#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "ops/backend/device/float_types.h"
#include "ops/backend/device/pieces.h"
#include "ops/backend/device/update/tensor_table.h"
#include "ops/backend/device/update/update.h"

// Private to the kernels of the optimizers.

namespace horo::ops::device_kernels {

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

template <int kStates>
HORO_KERNEL bool is_aligned(const UpdateEntry<kStates>& entry, bool has_copy) {
  bool is_aligned =
      device::is_vector_aligned(entry.value) && device::is_vector_aligned(entry.gradient);
  for (int s = 0; s < kStates; ++s)
    is_aligned = is_aligned && device::is_vector_aligned(entry.state[s]);
  return is_aligned && (!has_copy || device::is_vector_aligned(entry.copy));
}

/// The rule to apply now to the tensor of that number in a table. Rules whose numbers are in device
/// memory have a member current().
template <typename Rule>
HORO_KERNEL auto current(const Rule& rule, std::uint32_t tensor) {
  if constexpr (requires { rule.current(tensor); })
    return rule.current(tensor);
  else
    return rule;
}

/// Each block applies `rule` to the values of a tile, with their states and gradients.
template <typename Rule, typename Gradient, typename Copy, typename Table>
struct Update {
  static constexpr unsigned kThreads = 256;
  static constexpr int kStates = Rule::kStates;
  static constexpr int kArrays = std::max(kStates, 1);
  static constexpr bool kHasCopy = !std::is_same_v<Copy, NoCopy>;
  static constexpr bool kReadsGradient = !requires { Rule::kReadsOnlyStates; };
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
    const std::uint32_t tensor = table.find(place.block);
    auto now = current(rule, tensor);
    if (use.learning_rate != nullptr)
      now.learning_rate = *use.learning_rate * use.learning_rate_factor;
    const Entry& entry = table.entry[tensor];
    const TileRange range = range_of(table, tensor, place.block);
    for_each_piece<kElements>(
        range.begin, range.end, is_aligned(entry, kHasCopy), place.thread, kThreads,
        [&](auto piece, std::size_t at) { update(piece, now, entry, at, factor); });
  }

 private:
  // The gradient is not read again, so it bypasses the cache. Values and states are read and
  // written once.
  template <unsigned kSize, typename Applied>
  HORO_KERNEL void update(Piece<kSize>, const Applied& apply, const Entry& entry, std::size_t at,
                          float factor) const {
    float gradient[kSize] = {}, value[kSize], state[kArrays][kSize];
    if constexpr (kReadsGradient)
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
    if constexpr (kReadsGradient)
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

}  // namespace horo::ops::device_kernels
