#include <cmath>
#include <cstdint>
#include <vector>

#include "horo/device/block_reduction.h"
#include "ops/backend/device/elementwise.h"
#include "ops/backend/device/update/layerwise_update.h"
#include "ops/backend/device/update/update_kernel.h"
#include "ops/optim/lars.h"
#include "ops/optim/update_rules.h"

namespace horo::ops::device_kernels {
namespace {

/// The sums of the squares of the values and of the directions of a tile.
struct TileSums {
  double values, directions;
};

/// A rule with the ratio of each tensor and, for Lamb, the step number of a clock.
template <typename Base>
struct RatioRule {
  static constexpr int kStates = Base::kStates;
  Base rule;
  const float* ratios;  ///< null: not known yet
  const AdamWClock* clock = nullptr;

  HORO_KERNEL Base current(std::uint32_t tensor) const {
    Base now = rule;
    if constexpr (requires { now.ratio; })
      if (ratios != nullptr) now.ratio = ratios[tensor];
    if constexpr (requires { now.correction1; }) {
      now.correction1 = clock->correction1;
      now.correction2 = clock->correction2;
    }
    return now;
  }
};
struct RatioLambRule : RatioRule<LambRule> {
  static constexpr bool kReadsOnlyStates = true;
};

/// Each block calls measure() for the values of a tile and adds up the squares.
template <typename Rule, typename Gradient, typename Table>
struct MeasureTiles {
  static constexpr unsigned kThreads = 256;
  static constexpr unsigned kPhases = 3;
  static constexpr int kStates = Rule::kStates;
  static constexpr unsigned kElements = kPerVector<float>;
  static constexpr bool kWrites = decltype(Rule::rule)::kMeasureWrites;
  using Entry = UpdateEntry<kStates>;
  struct Shared {
    device::BlockReduction<double, kThreads> values, directions;
  };
  struct Own {};

  Table table;
  Rule rule;
  GradientUse use;
  TileSums* sums;

  template <unsigned kPhase>
  HORO_KERNEL void phase(const device::ThreadIndex& place, Shared& shared, Own&) const {
    if constexpr (kPhase == 0) {
      const TileSums own = measure(place);
      shared.values.give(place.thread, own.values);
      shared.directions.give(place.thread, own.directions);
    }
    if constexpr (kPhase == 1) {
      shared.values.combine(place.thread);
      shared.directions.combine(place.thread);
    }
    if constexpr (kPhase == 2)
      if (place.thread == 0)
        sums[place.block] = {shared.values.result(), shared.directions.result()};
  }

 private:
  HORO_KERNEL TileSums measure(const device::ThreadIndex& place) const {
    TileSums own{0, 0};
    if (use.skip != nullptr && *use.skip != 0) return own;
    const float factor = use.factor == nullptr ? 1 : *use.factor;
    const std::uint32_t tensor = table.find(place.block);
    const auto now = current(rule, tensor);
    const Entry& entry = table.entry[tensor];
    const TileRange range = range_of(table, tensor, place.block);
    for_each_piece<kElements>(
        range.begin, range.end, is_aligned(entry, false), place.thread, kThreads,
        [&](auto piece, std::size_t at) { measure(piece, now, entry, at, factor, own); });
    return own;
  }

  template <unsigned kSize, typename Applied>
  HORO_KERNEL void measure(Piece<kSize>, const Applied& apply, const Entry& entry, std::size_t at,
                           float factor, TileSums& sum) const {
    float gradient[kSize], value[kSize], state[kStates][kSize];
    load_piece_once(gradient, static_cast<const Gradient*>(entry.gradient) + at);
    load_piece(value, entry.value + at);
    for (int s = 0; s < kStates; ++s) load_piece(state[s], entry.state[s] + at);
    for (unsigned e = 0; e < kSize; ++e) {
      float own[kStates];
      for (int s = 0; s < kStates; ++s) own[s] = state[s][e];
      const double before = value[e];
      const double direction =
          apply.measure(value[e], own, scaled(gradient[e], use.scale) * factor);
      for (int s = 0; s < kStates; ++s) state[s][e] = own[s];
      sum.values += before * before;
      sum.directions += direction * direction;
    }
    if constexpr (kWrites) {
      store_piece(entry.value + at, value);
      for (int s = 0; s < kStates; ++s) store_piece(entry.state[s] + at, state[s]);
    }
  }
};

/// Each block adds the sums of the tiles of a tensor and writes its ratio.
template <typename Rule, typename Table>
struct ComputeRatios {
  static constexpr unsigned kThreads = 64;
  static constexpr unsigned kPhases = 3;
  struct Shared {
    device::BlockReduction<double, kThreads> values, directions;
  };
  struct Own {};

  Table table;
  Rule rule;
  const TileSums* sums;
  float* ratios;

  template <unsigned kPhase>
  HORO_KERNEL void phase(const device::ThreadIndex& place, Shared& shared, Own&) const {
    if constexpr (kPhase == 0) {
      TileSums own{0, 0};
      for (std::uint32_t tile = table.first_tile[place.block] + place.thread;
           tile < table.first_tile[place.block + 1]; tile += kThreads) {
        own.values += sums[tile].values;
        own.directions += sums[tile].directions;
      }
      shared.values.give(place.thread, own.values);
      shared.directions.give(place.thread, own.directions);
    }
    if constexpr (kPhase == 1) {
      shared.values.combine(place.thread);
      shared.directions.combine(place.thread);
    }
    if constexpr (kPhase == 2)
      if (place.thread == 0)
        ratios[place.block] =
            rule.ratio_of(std::sqrt(shared.values.result()), std::sqrt(shared.directions.result()));
  }
};

/// The parts of the scratch memory.
template <typename Table>
struct Scratch {
  TileSums* sums;
  float* ratios;

  Scratch(std::byte* memory, const Table& table)
      : sums(reinterpret_cast<TileSums*>(memory)),
        ratios(reinterpret_cast<float*>(memory + table.tiles() * sizeof(TileSums))) {}
};

template <typename Gradient, typename Rule, typename Table>
void measure(device::Stream& stream, const Table& table, const Rule& rule, const GradientUse& use,
             const Scratch<Table>& scratch) {
  using Measure = MeasureTiles<Rule, Gradient, Table>;
  using Base = decltype(rule.rule);
  using Ratios = ComputeRatios<Base, Table>;
  device::launch(stream, {table.tiles(), Measure::kThreads},
                 Measure{table, rule, use, scratch.sums});
  device::launch(stream, {table.tensors, Ratios::kThreads},
                 Ratios{table, rule.rule, scratch.sums, scratch.ratios});
}

template <typename Rule>
void update(device::Stream& stream, const std::vector<UpdateEntry<Rule::kStates>>& entries,
            const UpdateTypes& types, const Rule& rule, const GradientUse& use,
            std::byte* scratch_memory) {
  using Entry = UpdateEntry<Rule::kStates>;
  visit_float_type(types.gradient, "gradients", [&]<typename Gradient>(Gradient) {
    for_each_table(std::span<const Entry>(entries), [&]<typename Table>(const Table& table) {
      const Scratch<Table> scratch(scratch_memory, table);
      measure<Gradient>(stream, table, rule, use, scratch);
      Rule with_ratios = rule;
      with_ratios.ratios = scratch.ratios;
      visit_float_type(types.copy, "copies of values", [&]<typename Type>(Type) {
        using Copy = std::conditional_t<std::is_same_v<Type, float>, NoCopy, Type>;
        using Kernel = Update<Rule, Gradient, Copy, Table>;
        device::launch(stream, {table.tiles(), Kernel::kThreads}, Kernel{table, with_ratios, use});
      });
    });
  });
}

}  // namespace

std::size_t layerwise_scratch_bytes(std::span<const std::size_t> counts) {
  std::size_t bytes = 0;
  for (const std::size_t count : counts)
    bytes += TensorTable<UpdateEntry<1>>::tiles_of(count) * sizeof(TileSums) + sizeof(float);
  return bytes;
}

void update_lars(device::Stream& stream, std::span<const SgdTensor> tensors,
                 const UpdateTypes& types, const LarsOptions& options, std::byte* scratch,
                 const GradientUse& use) {
  std::vector<UpdateEntry<1>> entries;
  for (const SgdTensor& one : tensors)
    entries.push_back({one.value, {one.momentum}, one.gradient, one.copy, one.count});
  const LarsRule rule{options.learning_rate, options.momentum, options.weight_decay,
                      options.trust_coefficient};
  update(stream, entries, types, RatioRule<LarsRule>{rule, nullptr}, use, scratch);
}

void update_lamb(device::Stream& stream, std::span<const AdamWTensor> tensors,
                 const UpdateTypes& types, const AdamWOptions& options, const AdamWClock* clock,
                 std::byte* scratch, const GradientUse& use) {
  std::vector<UpdateEntry<2>> entries;
  for (const AdamWTensor& one : tensors)
    entries.push_back(
        {one.value, {one.first_moment, one.second_moment}, one.gradient, one.copy, one.count});
  const LambRule rule{rule_of(options, 1)};
  update(stream, entries, types, RatioLambRule{{rule, nullptr, clock}}, use, scratch);
}

void muon_direction(device::Stream& stream, const MuonTensor& tensor, DataType gradient_type,
                    float momentum, bool nesterov, std::byte* scratch_memory,
                    const GradientUse& use) {
  using Entry = UpdateEntry<1>;
  const Entry entry{tensor.direction, {tensor.momentum}, tensor.gradient, nullptr, tensor.count};
  const RatioRule<MuonRule> rule{{momentum, nesterov}, nullptr};
  visit_float_type(gradient_type, "gradients", [&]<typename Gradient>(Gradient) {
    for_each_table(std::span<const Entry>(&entry, 1), [&]<typename Table>(const Table& table) {
      const Scratch<Table> scratch(scratch_memory, table);
      measure<Gradient>(stream, table, rule, use, scratch);
      scale(stream, tensor.direction, tensor.direction, 1, tensor.count, scratch.ratios);
    });
  });
}

}  // namespace horo::ops::device_kernels
