#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "collectives/device/move_tiles.h"
#include "horo/device/float_conversion.h"
#include "horo/device/launch.h"
#include "horo/device/vector_access.h"

namespace horo::collectives {
namespace {

// Copies and scales the elements of a tile in one block of kThreads threads. `from` and `to` may be
// equal. Floating point values are multiplied by `scale`; integers are divided by `divisor`.
// Aligned tiles are accessed in words: in each round, the threads access adjacent words, and each
// thread loads the words of kAtOnce rounds before it stores the first. Elements after the last
// whole word, and tiles that are not aligned, are accessed one by one.
template <typename To, typename From>
struct MoveTile {
  static constexpr unsigned kThreads = 256;
  // The number of elements in a word. A word of the larger type has 16 bytes.
  static constexpr unsigned kElements = 16 / std::max<unsigned>(sizeof(To), sizeof(From));
  static constexpr unsigned kWords = TileTable::kTileElements / kElements;
  static constexpr unsigned kRounds = kWords / kThreads;
  // More rounds would take more registers than full occupancy leaves to a thread.
  static constexpr unsigned kAtOnce = std::min(kRounds, 8u);
  // The number of elements that a thread loads one by one before it stores the first.
  static constexpr unsigned kBatch = 8;
  static_assert(kElements <= kThreads && kRounds * kThreads == kWords && kRounds % kAtOnce == 0);

  double scale;
  std::int32_t divisor;

  // `count` is the number of elements from `from` to the end of the tensor or range, of which this
  // call handles at most one tile. `is_aligned` is whether both addresses are aligned to 16 bytes.
  HORO_KERNEL void operator()(To* to, const From* from, std::size_t count, bool is_aligned,
                              unsigned thread) const {
    const unsigned end =
        count < TileTable::kTileElements ? static_cast<unsigned>(count) : TileTable::kTileElements;
    if (!is_aligned) return move_elements(to, from, end, thread);
    if (end == TileTable::kTileElements) return move_words<true>(to, from, kWords, thread);
    move_words<false>(to, from, end / kElements, thread);
    const unsigned last = end / kElements * kElements + thread;
    if (last < end) to[last] = convert(from[last]);
  }

 private:
  HORO_KERNEL To convert(From x) const {
    if constexpr (std::is_integral_v<From>) {
      return divisor == 1 ? x : static_cast<To>(x / divisor);
    } else {
      const auto wide = device::widen(x);
      return device::narrow<To>(wide * static_cast<std::remove_const_t<decltype(wide)>>(scale));
    }
  }

  // If kIsWhole is true, `words` must be kWords.
  template <bool kIsWhole>
  HORO_KERNEL void move_words(To* to, const From* from, unsigned words, unsigned thread) const {
    for (unsigned first = thread; first < words; first += kAtOnce * kThreads) {
      From in[kAtOnce][kElements] = {};
      for (unsigned round = 0; round < kAtOnce; ++round) {
        const unsigned word = first + round * kThreads;
        if (kIsWhole || word < words) device::load_vectors_once(in[round], from + word * kElements);
      }
      for (unsigned round = 0; round < kAtOnce; ++round) {
        const unsigned word = first + round * kThreads;
        To out[kElements];
        for (unsigned e = 0; e < kElements; ++e) out[e] = convert(in[round][e]);
        if (kIsWhole || word < words) device::store_vectors(to + word * kElements, out);
      }
    }
  }

  HORO_KERNEL void move_elements(To* to, const From* from, unsigned end, unsigned thread) const {
    for (unsigned begin = thread; begin < end; begin += kBatch * kThreads) {
      From in[kBatch] = {};
      for (unsigned b = 0; b < kBatch; ++b)
        if (begin + b * kThreads < end) in[b] = from[begin + b * kThreads];
      for (unsigned b = 0; b < kBatch; ++b)
        if (begin + b * kThreads < end) to[begin + b * kThreads] = convert(in[b]);
    }
  }
};

enum class Direction { kIntoBuffer, kOutOfBuffer };

// Copies tiles between the tensors of a table, which have type X, and the buffer, which has type W.
template <typename X, typename W, Direction direction>
struct MoveTiles {
  static constexpr unsigned kThreads = MoveTile<X, W>::kThreads;

  TileMove move;

  HORO_KERNEL void operator()(const device::ThreadIndex& place, const TileTable& table) const {
    for (std::uint32_t tile = move.first + place.block; tile < move.last; tile += place.blocks)
      move_tile(table, tile, place.thread);
  }

 private:
  // Returns the index of the tensor that contains the tile, by binary search.
  HORO_KERNEL static std::uint32_t find(const TileTable& table, std::uint32_t tile) {
    std::uint32_t low = 0, high = table.tensors;
    while (high - low > 1) {
      const std::uint32_t middle = (low + high) / 2;
      (table.first_tile[middle] <= tile ? low : high) = middle;
    }
    return low;
  }

  HORO_KERNEL void move_tile(const TileTable& table, std::uint32_t tile, unsigned thread) const {
    const std::uint32_t t = find(table, tile);
    const TileTable::Tensor& tensor = table.tensor[t];
    const std::uint32_t begin = (tile - table.first_tile[t]) * TileTable::kTileElements;
    X* own = static_cast<X*>(tensor.data) + begin;
    W* buffer = static_cast<W*>(move.buffer) +
                static_cast<std::size_t>(tensor.offset) * TileTable::kAlignment + begin;
    const bool is_aligned = device::is_vector_aligned(own);
    if constexpr (direction == Direction::kIntoBuffer)
      MoveTile<W, X>{move.scale, 1}(buffer, own, tensor.count - begin, is_aligned, thread);
    else
      MoveTile<X, W>{move.scale, move.divisor}(own, buffer, tensor.count - begin, is_aligned,
                                               thread);
  }
};

constexpr std::size_t kTile = TileTable::kTileElements;

// Scales a contiguous range in place.
template <typename T>
struct Scale {
  T* data;
  std::size_t count;
  MoveTile<T, T> move;

  HORO_KERNEL void operator()(const device::ThreadIndex& place) const {
    const bool is_aligned = device::is_vector_aligned(data);
    for (std::size_t begin = place.block * kTile; begin < count; begin += place.blocks * kTile)
      move(data + begin, data + begin, count - begin, is_aligned, place.thread);
  }
};

// Calls function(x, w) with a value x of `type` and a value w of `wire`. The C++ types of x and w
// select the kernel.
template <typename Function>
void visit_types(DataType type, DataType wire, const Function& function) {
  if (type == DataType::kFloat32 && wire == DataType::kFloat16) return function(0.0f, Float16{});
  if (type == DataType::kFloat32 && wire == DataType::kBFloat16) return function(0.0f, BFloat16{});
  visit_type(type, [&](auto zero) { function(zero, zero); });
}

template <Direction direction>
void move_tiles(device::Stream& stream, unsigned blocks, const TileTable& table,
                const TileMove& move, DataType type, DataType wire) {
  visit_types(type, wire, [&]<typename X, typename W>(X, W) {
    using Kernel = MoveTiles<X, W, direction>;
    device::launch(stream, {std::min(blocks, move.last - move.first), Kernel::kThreads},
                   Kernel{move}, table);
  });
}

}  // namespace

bool can_travel_as(DataType type, DataType wire) {
  return type == wire || (type == DataType::kFloat32 &&
                          (wire == DataType::kFloat16 || wire == DataType::kBFloat16));
}

void pack(device::Stream& stream, unsigned blocks, const TileTable& table, const TileMove& move,
          DataType type, DataType wire) {
  move_tiles<Direction::kIntoBuffer>(stream, blocks, table, move, type, wire);
}

void unpack(device::Stream& stream, unsigned blocks, const TileTable& table, const TileMove& move,
            DataType type, DataType wire) {
  move_tiles<Direction::kOutOfBuffer>(stream, blocks, table, move, type, wire);
}

void load_movers(device::Device& device, DataType type, DataType wire) {
  visit_types(type, wire, [&]<typename X, typename W>(X, W) {
    device::load_kernel<MoveTiles<X, W, Direction::kIntoBuffer>, TileTable>(device);
    device::load_kernel<MoveTiles<X, W, Direction::kOutOfBuffer>, TileTable>(device);
  });
}

void scale(device::Stream& stream, unsigned blocks, void* data, DataType type, std::size_t count,
           double factor, std::int32_t divisor) {
  const std::size_t tiles = (count + kTile - 1) / kTile;
  visit_type(type, [&]<typename T>(T) {
    device::launch(
        stream,
        {static_cast<unsigned>(std::min<std::size_t>(blocks, tiles)), MoveTile<T, T>::kThreads},
        Scale<T>{static_cast<T*>(data), count, {factor, divisor}});
  });
}

void load_scale(device::Device& device, DataType type) {
  visit_type(type, [&]<typename T>(T) { device::load_kernel<Scale<T>>(device); });
}

}  // namespace horo::collectives
