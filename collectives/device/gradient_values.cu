#include <algorithm>
#include <cmath>
#include <type_traits>

#include "collectives/device/gradient_values.h"
#include "collectives/device/move_tile.h"
#include "horo/device/block_reduction.h"

namespace horo::collectives {
namespace {

constexpr unsigned kThreads = 256;

struct Smallest {
  template <typename T>
  HORO_KERNEL static T combine(T a, T b) {
    return a < b ? a : b;
  }
};

HORO_KERNEL bool is_finite(double x) { return x - x == 0; }

/// One block examines one tile.
template <typename T>
struct ExamineTiles {
  static constexpr unsigned kPhases = 3;
  static constexpr unsigned kElements = 16 / sizeof(T);  // in a word
  struct Shared {
    device::BlockReduction<double, kThreads> squares;
    device::BlockReduction<std::uint64_t, kThreads, Smallest> first;
  };
  struct Own {};

  TileTable table;
  ValueFindings* of_tiles;

  template <unsigned kPhase>
  HORO_KERNEL void phase(const device::ThreadIndex& place, Shared& shared, Own&) const {
    if constexpr (kPhase == 0) {
      const ValueFindings own = examine(place);
      shared.squares.give(place.thread, own.squares);
      shared.first.give(place.thread, own.first);
    }
    if constexpr (kPhase == 1) {
      shared.squares.combine(place.thread);
      shared.first.combine(place.thread);
    }
    if constexpr (kPhase == 2)
      if (place.thread == 0) write(place.block, shared);
  }

 private:
  HORO_KERNEL std::uint32_t begin_of(std::uint32_t tensor, std::uint32_t tile) const {
    return (tile - table.first_tile[tensor]) * TileTable::kTileElements;
  }
  HORO_KERNEL const T* data_of(std::uint32_t tensor, std::uint32_t tile) const {
    return static_cast<const T*>(table.tensor[tensor].data) + begin_of(tensor, tile);
  }

  // The first non-finite value of a thread has the lowest index of the thread, because the indices
  // of a thread ascend.
  HORO_KERNEL ValueFindings examine(const device::ThreadIndex& place) const {
    const std::uint32_t tensor = find_tensor(table, place.block);
    const T* data = data_of(tensor, place.block);
    const std::uint32_t rest = table.tensor[tensor].count - begin_of(tensor, place.block);
    const unsigned end = rest < TileTable::kTileElements ? rest : TileTable::kTileElements;
    ValueFindings found;
    const auto add = [&](T element, unsigned at) {
      const double value = device::widen(element);
      found.squares += value * value;
      if (!is_finite(value) && found.first == ValueFindings::kNone) found.first = at;
    };
    const unsigned words = device::is_vector_aligned(data) ? end / kElements : 0;
    for (unsigned word = place.thread; word < words; word += kThreads) {
      T elements[kElements];
      device::load_vectors(elements, data + word * kElements);
      for (unsigned e = 0; e < kElements; ++e) add(elements[e], word * kElements + e);
    }
    for (unsigned at = words * kElements + place.thread; at < end; at += kThreads)
      add(data[at], at);
    return found;
  }

  HORO_KERNEL void write(std::uint32_t tile, const Shared& shared) const {
    ValueFindings found;
    found.squares = shared.squares.result();
    found.first = shared.first.result();
    if (found.first != ValueFindings::kNone)
      found.value = device::widen(data_of(find_tensor(table, tile), tile)[found.first]);
    of_tiles[tile] = found;
  }
};

/// One block combines the tiles of one tensor.
struct CombineTiles {
  static constexpr unsigned kPhases = 3;
  struct Shared {
    device::BlockReduction<double, kThreads> squares;
    device::BlockReduction<std::uint64_t, kThreads, Smallest> tile;  // first with a value
  };
  struct Own {};

  const TilesOfTensor* tensors;
  const ValueFindings* of_tiles;
  ValueFindings* of_tensors;

  template <unsigned kPhase>
  HORO_KERNEL void phase(const device::ThreadIndex& place, Shared& shared, Own&) const {
    const TilesOfTensor& tensor = tensors[place.block];
    if constexpr (kPhase == 0) {
      double squares = 0;
      std::uint64_t first = ValueFindings::kNone;
      for (std::uint64_t tile = tensor.begin + place.thread; tile < tensor.end; tile += kThreads) {
        squares += of_tiles[tile].squares;
        if (of_tiles[tile].first != ValueFindings::kNone && first == ValueFindings::kNone)
          first = tile;
      }
      shared.squares.give(place.thread, squares);
      shared.tile.give(place.thread, first);
    }
    if constexpr (kPhase == 1) {
      shared.squares.combine(place.thread);
      shared.tile.combine(place.thread);
    }
    if constexpr (kPhase == 2) {
      if (place.thread != 0) return;
      const std::uint64_t tile = shared.tile.result();
      ValueFindings found;
      if (tile != ValueFindings::kNone) {
        found = of_tiles[tile];
        found.first += (tile - tensor.begin) * TileTable::kTileElements;
      }
      found.squares = shared.squares.result();
      of_tensors[place.block] = found;
    }
  }
};

/// One block writes the verdict.
struct JudgeGradients {
  static constexpr unsigned kPhases = 3;
  struct Shared {
    device::BlockReduction<double, kThreads> squares;
    device::BlockReduction<std::uint64_t, kThreads, Smallest> own, reduced;
  };
  struct Own {};

  const TilesOfTensor* tensors;
  std::size_t count;
  const ValueFindings* of_reduced;
  const ValueFindings* of_own;
  double max_norm;
  GradientVerdict* verdict;

  template <unsigned kPhase>
  HORO_KERNEL void phase(const device::ThreadIndex& place, Shared& shared, Own&) const {
    if constexpr (kPhase == 0) {
      double squares = 0;
      for (std::size_t t = place.thread; t < count; t += kThreads)
        if (!tensors[t].is_metric) squares += of_reduced[t].squares;
      shared.squares.give(place.thread, squares);
      shared.reduced.give(place.thread, first_in(of_reduced, place.thread));
      shared.own.give(place.thread, first_in(of_own, place.thread));
    }
    if constexpr (kPhase == 1) {
      shared.squares.combine(place.thread);
      shared.reduced.combine(place.thread);
      shared.own.combine(place.thread);
    }
    if constexpr (kPhase == 2)
      if (place.thread == 0) write(shared);
  }

 private:
  HORO_KERNEL std::uint64_t first_in(const ValueFindings* findings, unsigned thread) const {
    if (findings == nullptr) return ValueFindings::kNone;
    for (std::size_t t = thread; t < count; t += kThreads)
      if (findings[t].first != ValueFindings::kNone) return t;
    return ValueFindings::kNone;
  }
  HORO_KERNEL static NonFiniteInTensors source(const ValueFindings* findings,
                                               std::uint64_t tensor) {
    if (tensor == ValueFindings::kNone) return {};
    return {tensor, findings[tensor].first, findings[tensor].value};
  }
  HORO_KERNEL void write(const Shared& shared) const {
    GradientVerdict result;
    result.norm = std::sqrt(shared.squares.result());
    result.reduced = source(of_reduced, shared.reduced.result());
    result.own = source(of_own, shared.own.result());
    const bool is_all_finite = result.reduced.tensor == ValueFindings::kNone;
    if (is_all_finite && is_finite(result.norm) && result.norm > max_norm)
      result.factor = max_norm / result.norm;
    *verdict = result;
  }
};

template <typename T>
struct ScaleTiles {
  const GradientVerdict* verdict;
  std::uint32_t tiles;  // of the table

  HORO_KERNEL void operator()(const device::ThreadIndex& place, const TileTable& table) const {
    const double factor = verdict->factor;
    if (factor == 1) return;
    for (std::uint32_t tile = place.block; tile < tiles; tile += place.blocks) {
      const std::uint32_t tensor = find_tensor(table, tile);
      const std::uint32_t begin = (tile - table.first_tile[tensor]) * TileTable::kTileElements;
      T* data = static_cast<T*>(table.tensor[tensor].data) + begin;
      MoveTile<T, T>{factor, 1}(data, data, table.tensor[tensor].count - begin,
                                device::is_vector_aligned(data), place.thread);
    }
  }
};

// Calls function(x) with a value x of the floating-point `type`.
template <typename Function>
void visit_floating(DataType type, const Function& function) {
  visit_type(type, [&]<typename T>(T zero) {
    if constexpr (!std::is_integral_v<T>) function(zero);
  });
}

}  // namespace

void examine_tiles(device::Stream& stream, const TileTable& table, DataType type,
                   ValueFindings* of_tiles) {
  visit_floating(type, [&]<typename T>(T) {
    device::launch(stream, {table.tiles(), kThreads}, ExamineTiles<T>{table, of_tiles});
  });
}

void combine_tiles(device::Stream& stream, const TilesOfTensor* tensors, std::size_t count,
                   const ValueFindings* of_tiles, ValueFindings* of_tensors) {
  device::launch(stream, {static_cast<unsigned>(count), kThreads},
                 CombineTiles{tensors, of_tiles, of_tensors});
}

void judge_gradients(device::Stream& stream, const TilesOfTensor* tensors, std::size_t count,
                     const ValueFindings* reduced, const ValueFindings* own, double max_norm,
                     GradientVerdict* verdict) {
  device::launch(stream, {1, kThreads},
                 JudgeGradients{tensors, count, reduced, own, max_norm, verdict});
}

void scale_by_verdict(device::Stream& stream, unsigned blocks, const TileTable& table,
                      DataType type, const GradientVerdict* verdict) {
  visit_floating(type, [&]<typename T>(T) {
    device::launch(stream, {std::min(blocks, table.tiles()), MoveTile<T, T>::kThreads},
                   ScaleTiles<T>{verdict, table.tiles()}, table);
  });
}

void load_gradient_kernels(device::Device& device) {
  for (int t = 0; t < kDataTypeCount; ++t)
    visit_floating(static_cast<DataType>(t), [&]<typename T>(T) {
      device::load_kernel<ExamineTiles<T>>(device);
      device::load_kernel<ScaleTiles<T>, TileTable>(device);
    });
  device::load_kernel<CombineTiles>(device);
  device::load_kernel<JudgeGradients>(device);
}

}  // namespace horo::collectives
