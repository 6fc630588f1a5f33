#include "collectives/device/move_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "collectives/device/fused_layout.h"
#include "tests/collectives/contract/exact_values.h"
#include "tests/support/device_array.h"
#include "tests/support/device_under_test.h"

namespace horo::collectives {
namespace {

using device::DeviceArray;

constexpr std::size_t kSizes[] = {1, 0, 127, 128, 129, 8191, 8192, 8193, 3, 3 * 8192 + 5};

template <typename T>
T value(std::size_t tensor, std::size_t i) {
  return static_cast<T>(static_cast<float>(static_cast<int>((i * 7 + tensor * 13) % 101) - 50));
}

// Tensors in one array, with `skip` elements and a guard between neighbours. Values are read and
// written in a copy on the host.
template <typename T>
class Tensors {
 public:
  Tensors(device::Device& device, std::vector<std::size_t> sizes, std::size_t skip)
      : sizes_(std::move(sizes)), memory_(device, total(sizes_, skip)) {
    std::ranges::fill(memory_.host(), guard());
    for (const std::size_t size : sizes_) {
      views_.emplace_back(memory_.data() + at(views_.size(), skip), Shape{size});
      copies_.push_back(memory_.host().data() + at(copies_.size(), skip));
    }
  }
  const DeviceArray<T>& memory() const { return memory_; }
  std::vector<TensorView>& views() { return views_; }
  T* copy(std::size_t tensor) { return copies_[tensor]; }
  std::size_t size(std::size_t tensor) const { return sizes_[tensor]; }
  std::size_t count() const { return sizes_.size(); }
  static T guard() { return static_cast<T>(77.0f); }
  std::size_t guards() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(memory_.host(), [](T x) { return contract::same_bits(x, guard()); }));
  }

 private:
  static std::size_t total(const std::vector<std::size_t>& sizes, std::size_t skip) {
    return std::accumulate(sizes.begin(), sizes.end(), sizes.size() * skip);
  }
  std::size_t at(std::size_t tensor, std::size_t skip) const {
    return std::accumulate(sizes_.begin(), sizes_.begin() + static_cast<std::ptrdiff_t>(tensor),
                           tensor * skip);
  }

  std::vector<std::size_t> sizes_;
  DeviceArray<T> memory_;
  std::vector<TensorView> views_;
  std::vector<T*> copies_;
};

// Packs and unpacks. After each step, compares every element with the scalar conversion.
template <typename X, typename W>
void check(const std::vector<std::size_t>& sizes, std::size_t skip, double scale,
           std::size_t chunk_bytes) {
  const auto device = device::make_device();
  const auto stream = device->make_stream();
  Tensors<X> tensors(*device, sizes, skip);
  for (std::size_t t = 0; t < tensors.count(); ++t)
    for (std::size_t i = 0; i < tensors.size(t); ++i) tensors.copy(t)[i] = value<X>(t, i);
  const std::size_t guards = tensors.guards();
  tensors.memory().upload(*stream);
  const FusedLayout layout(tensors.views(), data_type_of<W>, chunk_bytes);
  const DeviceArray<W> buffer(*device, layout.buffer_count());
  stream->fill(buffer.data(), 0, layout.buffer_bytes());
  const auto move = [&](auto&& way, double factor, int divisor) {
    for (const FusedLayout::Chunk& chunk : layout.chunks()) {
      way(*stream, 3, layout.tables()[chunk.table],
          {buffer.data(), chunk.first_tile, chunk.last_tile, factor, divisor}, data_type_of<X>,
          data_type_of<W>);
    }
  };
  constexpr bool kIsFloating = !std::is_integral_v<X>;
  move(pack, scale, 1);
  const auto packed = [&](X x) {
    if constexpr (std::is_same_v<X, double>)
      return static_cast<W>(x * scale);
    else if constexpr (kIsFloating)
      return static_cast<W>(static_cast<float>(x) * static_cast<float>(scale));
    else
      return x;
  };
  const std::vector<W> packed_values = buffer.values(*stream);
  const W* place = packed_values.data();
  for (std::size_t t = 0; t < tensors.count(); ++t) {
    for (std::size_t i = 0; i < tensors.size(t); ++i)
      ASSERT_TRUE(contract::same_bits(place[i], packed(value<X>(t, i))))
          << "tensor " << t << " index " << i;
    place += (tensors.size(t) + 127) / 128 * 128;
  }
  std::ranges::fill(tensors.memory().host(), Tensors<X>::guard());
  move(unpack, 0.5, -3);
  tensors.memory().download(*stream);
  stream->synchronize();
  for (std::size_t t = 0; t < tensors.count(); ++t)
    for (std::size_t i = 0; i < tensors.size(t); ++i) {
      const W wire = packed(value<X>(t, i));
      X expected;
      if constexpr (std::is_same_v<X, double>)
        expected = wire * 0.5;
      else if constexpr (kIsFloating)
        expected = static_cast<X>(static_cast<float>(wire) * 0.5f);
      else
        expected = static_cast<X>(wire / -3);
      ASSERT_TRUE(contract::same_bits(tensors.copy(t)[i], expected))
          << "tensor " << t << " index " << i;
    }
  EXPECT_EQ(guards, tensors.guards());
}

template <typename X, typename W>
void check_alignments() {
  const std::vector<std::size_t> sizes(std::begin(kSizes), std::end(kSizes));
  for (const std::size_t skip : {1, 8, 16})
    for (const std::size_t chunk_bytes : {std::size_t{0}, std::size_t{40000}, std::size_t{1} << 30})
      check<X, W>(sizes, skip, 0.37, chunk_bytes);
  // All tensors start at a multiple of 16 elements, and end inside of a word.
  check<X, W>({15, 31, 127, 4111, 8191, 8207, 16383}, 1, 0.37, 40000);
  check<X, W>({3, 19, 35, 1027, 8179, 8195, 16387}, 13, 0.37, 40000);
  // All tensors but the first start one element before such a multiple.
  check<X, W>({14, 31, 4111, 8191, 16383}, 1, 0.37, 0);
}

TEST(MoveTiles, Float32) { check_alignments<float, float>(); }
TEST(MoveTiles, Float32AsFloat16) { check_alignments<float, Float16>(); }
TEST(MoveTiles, Float32AsBFloat16) { check_alignments<float, BFloat16>(); }
TEST(MoveTiles, Float64) { check_alignments<double, double>(); }
TEST(MoveTiles, Float16) { check_alignments<Float16, Float16>(); }
TEST(MoveTiles, BFloat16) { check_alignments<BFloat16, BFloat16>(); }
TEST(MoveTiles, Int8) { check_alignments<std::int8_t, std::int8_t>(); }
TEST(MoveTiles, UInt8) { check_alignments<std::uint8_t, std::uint8_t>(); }
TEST(MoveTiles, Int16) { check_alignments<std::int16_t, std::int16_t>(); }
TEST(MoveTiles, UInt16) { check_alignments<std::uint16_t, std::uint16_t>(); }
TEST(MoveTiles, Int32) { check_alignments<std::int32_t, std::int32_t>(); }
TEST(MoveTiles, Int64) { check_alignments<std::int64_t, std::int64_t>(); }

TEST(Scale, MatchesBitsOfUnpackInPlace) {
  const auto device = device::make_device();
  const auto stream = device->make_stream();
  contract::for_each_type([&]<typename T>(T) {
    for (const std::size_t skip : {0, 1})
      for (const std::size_t count : {1, 8191, 3 * 8192 + 5}) {
        const std::int32_t divisor = count == 1 ? 130 : 3;  // 130 exceeds the range of int8
        std::vector<T> x;
        for (std::size_t i = 0; i < skip + count + 1; ++i) x.push_back(value<T>(3, i));
        const DeviceArray<T> array(*device, *stream, x);
        scale(*stream, 2, array.data() + skip, data_type_of<T>, count, 0.37, divisor);
        for (std::size_t i = skip; i < skip + count; ++i) {
          if constexpr (std::is_same_v<T, double>)
            x[i] *= 0.37;
          else if constexpr (std::is_integral_v<T>)
            x[i] = static_cast<T>(x[i] / divisor);
          else
            x[i] = static_cast<T>(static_cast<float>(x[i]) * 0.37f);
        }
        const std::vector<T> scaled = array.values(*stream);
        for (std::size_t i = 0; i < x.size(); ++i)
          ASSERT_TRUE(contract::same_bits(scaled[i], x[i]))
              << name_of(data_type_of<T>) << " index " << i << " of " << count;
      }
  });
}

TEST(MoveTiles, HandlesMoreTensorsThanOneTable) {
  std::vector<std::size_t> sizes;
  for (std::size_t t = 0; t < 2 * TileTable::kMaxTensors + 7; ++t) sizes.push_back(t % 200);
  check<float, BFloat16>(sizes, 1, 1, 5000);
  check<float, float>(sizes, 1, 1, std::size_t{1} << 30);
}

TEST(MoveTiles, KeepsInfinitiesAndNan) {
  const auto device = device::make_device();
  const auto stream = device->make_stream();
  std::vector<float> x(200, 1e30f);
  x[5] = INFINITY;
  x[199] = NAN;
  const DeviceArray<float> tensor(*device, *stream, x);
  const TensorView view(tensor.data(), Shape{x.size()});
  const FusedLayout layout(std::span(&view, 1), DataType::kFloat16, 0);
  const device::Memory buffer = device->allocate(layout.buffer_bytes());
  const TileTable& table = layout.tables()[0];
  const TileMove all{buffer.data(), 0, table.tiles()};
  pack(*stream, 1, table, all, DataType::kFloat32, DataType::kFloat16);
  unpack(*stream, 1, table, all, DataType::kFloat32, DataType::kFloat16);
  x = tensor.values(*stream);
  EXPECT_EQ(x[5], INFINITY);
  EXPECT_EQ(x[6], INFINITY);  // too large for float16
  EXPECT_TRUE(std::isnan(x[199]));
}

}  // namespace
}  // namespace horo::collectives
