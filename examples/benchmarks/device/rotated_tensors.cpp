#include "examples/benchmarks/device/rotated_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "collectives/device/move_tiles.h"
#include "horo/base/error.h"

namespace horo::bench {
namespace {

constexpr std::size_t kAlignment = 64;                    // of a tensor, in elements
constexpr std::size_t kRotatedBytes = 256 * 1000 * 1000;  // several times the cache
constexpr int kRotatedPoison = 0xff;                      // NaN

// Fills with values in [-1, 1) from Marsaglia's xorshift generator (Journal of Statistical Software
// 8(14), 2003).
void fill_at_random(float* values, std::size_t count) {
  std::uint64_t state = 88172645463325252ull;
  for (std::size_t i = 0; i < count; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    values[i] = static_cast<float>(state >> 40) * 0x1p-23f - 1.0f;
  }
}

}  // namespace

std::vector<std::size_t> divided(std::vector<std::size_t> counts, std::size_t divide) {
  for (std::size_t& count : counts) count = std::max<std::size_t>(1, count / divide);
  return counts;
}

RotatedTensors::RotatedTensors(device::Device& device, device::Stream& stream,
                               const std::vector<std::size_t>& counts, DataType wire)
    : wire_(wire) {
  std::size_t places = 0;
  for (const std::size_t count : counts) {
    place_of_.push_back(places);
    places += (count + kAlignment - 1) / kAlignment * kAlignment;
    count_ += count;
  }
  values_ = device.allocate_pinned(places * sizeof(float));
  fill_at_random(reinterpret_cast<float*>(values_.data()), places);
  // Several copies of the tensors take turns, so that each run reads memory that is no longer in
  // the cache of the GPU.
  const std::size_t sets = 2 + kRotatedBytes / moved_bytes();
  for (std::size_t s = 0; s < std::min<std::size_t>(sets, 64); ++s) {
    Set set;
    set.tensors = device.allocate(values_.size());
    auto* const data = reinterpret_cast<float*>(set.tensors.data());
    for (std::size_t t = 0; t < counts.size(); ++t)
      set.views.emplace_back(data + place_of_[t], Shape{counts[t]});
    set.layout = std::make_unique<collectives::FusedLayout>(set.views, wire, SIZE_MAX);
    set.buffer = device.allocate(set.layout->buffer_bytes());
    stream.copy(data, values_.data(), values_.size());
    stream.fill(set.buffer.data(), kRotatedPoison, set.buffer.size());
    sets_.push_back(std::move(set));
  }
  stream.synchronize();
}

void RotatedTensors::pack(device::Device& device, device::Stream& stream, std::size_t i,
                          double scale) const {
  move(collectives::pack, device, stream, i, scale);
}

void RotatedTensors::unpack(device::Device& device, device::Stream& stream, std::size_t i,
                            double scale) const {
  move(collectives::unpack, device, stream, i, scale);
}

void RotatedTensors::move(decltype(collectives::pack)& mover, device::Device& device,
                          device::Stream& stream, std::size_t i, double scale) const {
  const Set& set = (*this)[i];
  for (const auto& chunk : set.layout->chunks()) {
    mover(stream, device.full_grid(), set.layout->tables()[chunk.table],
          {set.buffer.data(), chunk.first_tile, chunk.last_tile, scale}, DataType::kFloat32, wire_);
  }
}

void RotatedTensors::check(device::Device& device, device::Stream& stream, double scale) const {
  const Set& set = sets_.front();
  stream.fill(set.buffer.data(), kRotatedPoison, set.buffer.size());
  pack(device, stream, 0, scale);
  stream.fill(set.tensors.data(), kRotatedPoison, set.tensors.size());
  unpack(device, stream, 0, 1 / scale);
  const device::Memory copy = device.allocate_pinned(values_.size());
  stream.copy(copy.data(), set.tensors.data(), values_.size());
  stream.synchronize();
  const auto* const values = reinterpret_cast<const float*>(values_.data());
  const auto* const results = reinterpret_cast<const float*>(copy.data());
  const float tolerance = wire_ == DataType::kFloat32 ? 0x1p-22f : 0x1p-8f;
  for (std::size_t t = 0; t < set.views.size(); ++t)
    for (std::size_t i = place_of_[t]; i < place_of_[t] + set.views[t].count(); ++i)
      if (!(std::abs(results[i] - values[i]) <= tolerance * std::abs(values[i])))
        throw Error(fmt::format("tensor {}, index {}: {} became {}", t, i - place_of_[t], values[i],
                                results[i]));
}

}  // namespace horo::bench
