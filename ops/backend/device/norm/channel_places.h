#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <type_traits>

#include "horo/device/launch.h"
#include "ops/backend/shapes.h"

// How the threads of a kernel share the values of images, channel by channel. Blocks handle chunks
// of the images. The chunks depend on the shape only, so sums have the same bits on every GPU.

namespace horo::ops::device_kernels {

inline constexpr unsigned kPlaceThreads = 256;
/// The largest number of chunks.
inline constexpr std::size_t kMaxChunks = 1024;

/// Doubles `per_chunk` until `total` units give at most kMaxChunks chunks.
inline std::size_t units_per_chunk(std::size_t total, std::size_t per_chunk) {
  while ((total + per_chunk - 1) / per_chunk > kMaxChunks) per_chunk *= 2;
  return per_chunk;
}

/// Images with channels last, as rows of channels. A thread handles kWord adjacent channels of some
/// rows of a chunk; adjacent threads handle adjacent words.
template <unsigned kWord>
class RowPlaces {
 public:
  /// The channel of a word's element i is channel() + i * kChannelStep.
  static constexpr unsigned kChannelStep = 1;

  explicit RowPlaces(const ImageBatch& images)
      : rows_(images.batch * images.height * images.width),
        channels_(images.channels),
        lanes_(static_cast<unsigned>(
            std::min<std::size_t>(kMaxLanes, std::bit_ceil(images.channels / kWord)))),
        chunk_rows_(units_per_chunk(rows_, kRowsPerThread * kPlaceThreads / lanes_)) {}

  std::size_t chunks() const { return (rows_ + chunk_rows_ - 1) / chunk_rows_; }
  unsigned blocks() const { return static_cast<unsigned>(chunks() * strips()); }
  HORO_KERNEL std::size_t channels() const { return channels_; }
  HORO_KERNEL std::size_t chunk(unsigned block) const { return block / strips(); }
  /// The channels of a block, of which the last may not exist.
  HORO_KERNEL unsigned block_channels() const { return lanes_ * kWord; }
  HORO_KERNEL std::size_t first_channel(unsigned block) const {
    return block % strips() * block_channels();
  }
  /// The channel of the thread's first element relative to the block's; groups of threads with the
  /// same one are numbered.
  HORO_KERNEL unsigned lane_channel(unsigned thread) const { return thread % lanes_ * kWord; }
  HORO_KERNEL unsigned group(unsigned thread) const { return thread / lanes_; }
  HORO_KERNEL unsigned groups() const { return kPlaceThreads / lanes_; }

  /// Calls use(index) with the index of the first element of each word of this thread.
  template <typename Use>
  HORO_KERNEL void for_each(const device::ThreadIndex& place, const Use& use) const {
    const std::size_t channel = first_channel(place.block) + lane_channel(place.thread);
    if (channel >= channels_) return;
    const std::size_t begin = chunk(place.block) * chunk_rows_;
    const std::size_t end = begin + chunk_rows_ < rows_ ? begin + chunk_rows_ : rows_;
    for (std::size_t row = begin + group(place.thread); row < end; row += groups())
      use(row * channels_ + channel);
  }

 private:
  static constexpr std::size_t kMaxLanes = kWord == 1 ? 32 : 8;
  static constexpr std::size_t kRowsPerThread = 16;
  HORO_KERNEL std::size_t strips() const {
    return (channels_ + block_channels() - 1) / block_channels();
  }

  std::size_t rows_, channels_;
  unsigned lanes_;
  std::size_t chunk_rows_;
};

/// Images with channels first, as planes of pixels. A block handles one channel of the images of a
/// chunk; adjacent threads handle adjacent words of kWord pixels.
template <unsigned kWord>
class PlanePlaces {
 public:
  static constexpr unsigned kChannelStep = 0;

  explicit PlanePlaces(const ImageBatch& images)
      : images_(images.batch),
        channels_(images.channels),
        words_(static_cast<unsigned>(images.height * images.width / kWord)),
        chunk_images_(units_per_chunk(
            images_, std::max<std::size_t>(1, kWordsPerThread * kPlaceThreads / words_))) {}

  std::size_t chunks() const { return (images_ + chunk_images_ - 1) / chunk_images_; }
  unsigned blocks() const { return static_cast<unsigned>(chunks() * channels_); }
  HORO_KERNEL std::size_t channels() const { return channels_; }
  HORO_KERNEL std::size_t chunk(unsigned block) const { return block / channels_; }
  HORO_KERNEL unsigned block_channels() const { return 1; }
  HORO_KERNEL std::size_t first_channel(unsigned block) const { return block % channels_; }
  HORO_KERNEL unsigned lane_channel(unsigned) const { return 0; }
  HORO_KERNEL unsigned group(unsigned thread) const { return thread; }
  HORO_KERNEL unsigned groups() const { return kPlaceThreads; }

  template <typename Use>
  HORO_KERNEL void for_each(const device::ThreadIndex& place, const Use& use) const {
    const std::size_t channel = first_channel(place.block);
    const std::size_t begin = chunk(place.block) * chunk_images_;
    const std::size_t end = begin + chunk_images_ < images_ ? begin + chunk_images_ : images_;
    const std::size_t count = (end - begin) * words_;
    for (std::size_t word = place.thread; word < count; word += kPlaceThreads)
      use((((begin + word / words_) * channels_ + channel) * words_ + word % words_) * kWord);
  }

 private:
  static constexpr std::size_t kWordsPerThread = 4;

  std::size_t images_, channels_;
  unsigned words_;  // of a plane
  std::size_t chunk_images_;
};

/// The values of one array [channels] for the elements of a word.
template <typename Places, unsigned kWord>
HORO_KERNEL void load_channels(float (&values)[kWord], const float* array, std::size_t channel) {
  for (unsigned i = 0; i < kWord; ++i) values[i] = array[channel + i * Places::kChannelStep];
}

/// Combines one Partial for each element of a thread's word into one for each channel of a block,
/// over three phases, in an order that depends on the shape only. A member of the Shared struct of
/// a BlockKernel with kPlaceThreads threads.
template <typename Partial, unsigned kWord>
class ChannelReduction {
 public:
  /// First phase.
  template <typename Places>
  HORO_KERNEL void give(const Places& places, unsigned thread, const Partial (&own)[kWord]) {
    constexpr unsigned kStep = Places::kChannelStep;
    const unsigned slot =
        places.group(thread) * places.block_channels() + places.lane_channel(thread);
    if constexpr (kStep == 0) {
      Partial all = own[0];
      for (unsigned i = 1; i < kWord; ++i) all = Partial::combine(all, own[i]);
      slot_[slot] = all;
    } else {
      for (unsigned i = 0; i < kWord; ++i) slot_[slot + i] = own[i];
    }
  }
  /// Second phase: some threads combine some groups each.
  template <typename Places>
  HORO_KERNEL void combine(const Places& places, unsigned thread) {
    const unsigned channels = places.block_channels(), parts = parts_of(channels);
    if (thread < channels * parts)
      part_[thread] = fold(slot_, thread, places.groups() * channels, channels * parts);
  }
  /// Third phase: the result of a channel of the block.
  template <typename Places>
  HORO_KERNEL Partial result(const Places& places, unsigned channel) const {
    const unsigned channels = places.block_channels();
    return fold(part_, channel, channels * parts_of(channels), channels);
  }

 private:
  HORO_KERNEL static unsigned parts_of(unsigned channels) {
    return kPlaceThreads / channels < 16 ? kPlaceThreads / channels : 16;
  }
  HORO_KERNEL static Partial fold(const Partial* values, unsigned first, unsigned end,
                                  unsigned step) {
    Partial all = values[first];
    for (unsigned i = first + step; i < end; i += step) all = Partial::combine(all, values[i]);
    return all;
  }

  Partial slot_[kPlaceThreads * kWord];
  Partial part_[kPlaceThreads];
};

}  // namespace horo::ops::device_kernels
