#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>

#include "horo/base/error.h"
#include "ops/backend/device/float_types.h"
#include "ops/backend/device/norm/batch_norm.h"
#include "ops/backend/device/norm/channel_places.h"
#include "ops/backend/device/pieces.h"
#include "ops/backend/device/update/moments.h"

namespace horo::ops::device_kernels {
namespace {

/// The statistics of the values of a thread, for each element of its words.
template <typename T>
struct InputMoments {
  using Partial = Moments;
  const T* x;

  template <typename Places, unsigned kWord>
  class Sums {
   public:
    HORO_KERNEL Sums(const InputMoments& of, std::size_t) : x_(of.x) {}
    HORO_KERNEL void add(std::size_t at) {
      float x[kWord];
      load_piece(x, x_ + at);
      count_ += 1;
      const float share = 1 / count_;
      for (unsigned i = 0; i < kWord; ++i) add_value(mean_[i], squares_[i], x[i], share);
    }
    HORO_KERNEL Moments of(unsigned i) const { return {count_, mean_[i], squares_[i]}; }

   private:
    const T* x_;
    float count_ = 0;
    float mean_[kWord] = {}, squares_[kWord] = {};
  };
};

/// The gradient by the result of the normalisation: dy, or with a ReLU dy where its output passed.
template <typename T>
struct OutputGradient {
  const T* dy;
  const T* y;  // null without a ReLU

  template <unsigned kWord>
  HORO_KERNEL void load(float (&g)[kWord], std::size_t at) const {
    load_piece(g, dy + at);
    if (y == nullptr) return;
    float output[kWord];
    load_piece(output, y + at);
    for (unsigned i = 0; i < kWord; ++i) g[i] = relu_gradient(g[i], output[i]);
  }
};

template <typename T>
struct GradientSource {
  using Partial = GradientSums;
  const T* x;
  OutputGradient<T> gradient;
  const float* mean;

  template <typename Places, unsigned kWord>
  class Sums {
   public:
    HORO_KERNEL Sums(const GradientSource& of, std::size_t channel) : of_(of) {
      load_channels<Places>(mean_, of.mean, channel);
    }
    HORO_KERNEL void add(std::size_t at) {
      float x[kWord], g[kWord];
      load_piece(x, of_.x + at);
      of_.gradient.load(g, at);
      for (unsigned i = 0; i < kWord; ++i) {
        gradient_[i] += g[i];
        product_[i] += g[i] * (x[i] - mean_[i]);
      }
    }
    HORO_KERNEL GradientSums of(unsigned i) const { return {gradient_[i], product_[i]}; }

   private:
    GradientSource of_;
    float mean_[kWord];
    float gradient_[kWord] = {}, product_[kWord] = {};
  };
};

/// Each block reduces the values of its channels in one chunk.
template <typename Source, typename Places, unsigned kWord>
struct ReduceChunks {
  static constexpr unsigned kThreads = kPlaceThreads;
  static constexpr unsigned kPhases = 3;
  using Partial = typename Source::Partial;
  struct Shared {
    ChannelReduction<Partial, kWord> reduction;
  };
  struct Own {};

  Source source;
  Places places;
  Partial* partials;  // [chunks][channels]

  template <unsigned kPhase>
  HORO_KERNEL void phase(const device::ThreadIndex& place, Shared& shared, Own&) const {
    if constexpr (kPhase == 0) give(place, shared);
    if constexpr (kPhase == 1) shared.reduction.combine(places, place.thread);
    if constexpr (kPhase == 2) {
      const std::size_t channel = places.first_channel(place.block) + place.thread;
      if (place.thread < places.block_channels() && channel < places.channels())
        partials[places.chunk(place.block) * places.channels() + channel] =
            shared.reduction.result(places, place.thread);
    }
  }

 private:
  HORO_KERNEL void give(const device::ThreadIndex& place, Shared& shared) const {
    Partial own[kWord] = {};
    const std::size_t channel =
        places.first_channel(place.block) + places.lane_channel(place.thread);
    if (channel < places.channels()) {
      typename Source::template Sums<Places, kWord> sums(source, channel);
      places.for_each(place, [&](std::size_t at) { sums.add(at); });
      for (unsigned i = 0; i < kWord; ++i) own[i] = sums.of(i);
    }
    shared.reduction.give(places, place.thread, own);
  }
};

/// Each block combines the chunks of 32 channels and passes the results to `finish`. The threads of
/// a warp handle one channel each, and the warps handle different chunks.
template <typename Partial, typename Finish>
struct MergeChunks {
  static constexpr unsigned kChannels = 32, kGroups = 32;
  static constexpr unsigned kThreads = kChannels * kGroups;
  static constexpr unsigned kPhases = 2;
  struct Shared {
    Partial partial[kGroups][kChannels];
  };
  struct Own {};

  const Partial* partials;
  std::size_t chunks, channels;
  Finish finish;

  template <unsigned kPhase>
  HORO_KERNEL void phase(const device::ThreadIndex& place, Shared& shared, Own&) const {
    const unsigned lane = place.thread % kChannels, group = place.thread / kChannels;
    const std::size_t channel = place.block * std::size_t{kChannels} + lane;
    if constexpr (kPhase == 0) {
      Partial all = {};
      if (channel < channels)
        for (std::size_t chunk = group; chunk < chunks; chunk += kGroups)
          all = Partial::combine(all, partials[chunk * channels + channel]);
      shared.partial[group][lane] = all;
    }
    if constexpr (kPhase == 1) {
      if (group > 0 || channel >= channels) return;
      Partial all = shared.partial[0][lane];
      for (unsigned g = 1; g < kGroups; ++g) all = Partial::combine(all, shared.partial[g][lane]);
      finish(channel, all);
    }
  }
};

struct FinishStatistics {
  float* mean;
  float* inverse_deviation;
  float* running_mean;
  float* running_variance;
  float momentum, epsilon;

  HORO_KERNEL void operator()(std::size_t channel, const Moments& moments) const {
    mean[channel] = moments.mean;
    inverse_deviation[channel] = 1 / std::sqrt(moments.variance() + epsilon);
    approach(running_mean[channel], moments.mean);
    approach(running_variance[channel], moments.unbiased_variance());
  }
  HORO_KERNEL void approach(float& value, float target) const {
    value += momentum * (target - value);
  }
};

struct FinishGradients {
  const float* inverse_deviation;
  float* scale_gradient;
  float* shift_gradient;

  HORO_KERNEL void operator()(std::size_t channel, const GradientSums& sums) const {
    scale_gradient[channel] = sums.product * inverse_deviation[channel];
    shift_gradient[channel] = sums.gradient;
  }
};

/// y = (x - mean) / deviation * scale + shift, plus `addend`, through ReLU.
template <typename T, typename Places, unsigned kWord>
struct Normalise {
  static constexpr unsigned kThreads = kPlaceThreads;

  Places places;
  const T* x;
  const T* addend;  // may be null
  T* y;
  const float* scale;
  const float* shift;
  const float* mean;
  const float* deviation;  // its inverse, or the variance
  bool is_variance, has_relu;
  float epsilon;

  HORO_KERNEL void operator()(const device::ThreadIndex& place) const {
    const std::size_t channel =
        places.first_channel(place.block) + places.lane_channel(place.thread);
    if (channel >= places.channels()) return;
    Normalisation of[kWord];
    for (unsigned i = 0; i < kWord; ++i) of[i] = normalisation(channel + i * Places::kChannelStep);
    places.for_each(place, [&](std::size_t at) { normalise(of, at); });
  }

 private:
  HORO_KERNEL Normalisation normalisation(std::size_t channel) const {
    const float inverse =
        is_variance ? 1 / std::sqrt(deviation[channel] + epsilon) : deviation[channel];
    return {mean[channel], inverse * scale[channel], shift[channel]};
  }
  HORO_KERNEL void normalise(const Normalisation (&of)[kWord], std::size_t at) const {
    float value[kWord], more[kWord] = {};
    load_piece(value, x + at);
    if (addend != nullptr) load_piece(more, addend + at);
    for (unsigned i = 0; i < kWord; ++i) {
      value[i] = of[i](value[i]) + more[i];
      if (has_relu) value[i] = relu(value[i]);
    }
    store_piece(y + at, value);
  }
};

/// The gradients by the input and by the addend, from the gradients by scale and shift, which are
/// complete.
template <typename T, typename Places, unsigned kWord>
struct NormaliseBackward {
  static constexpr unsigned kThreads = kPlaceThreads;

  Places places;
  GradientSource<T> source;
  const float* inverse_deviation;
  const float* scale;
  const float* scale_gradient;
  const float* shift_gradient;
  float count;  // of values of a channel
  T* dx;
  T* addend_gradient;  // may be null

  HORO_KERNEL void operator()(const device::ThreadIndex& place) const {
    const std::size_t channel =
        places.first_channel(place.block) + places.lane_channel(place.thread);
    if (channel >= places.channels()) return;
    NormalisationGradient of[kWord];
    for (unsigned i = 0; i < kWord; ++i) of[i] = gradient_of(channel + i * Places::kChannelStep);
    places.for_each(place, [&](std::size_t at) { normalise(of, at); });
  }

 private:
  HORO_KERNEL NormalisationGradient gradient_of(std::size_t channel) const {
    const float inverse = inverse_deviation[channel];
    return {source.mean[channel], inverse, inverse * scale[channel],
            shift_gradient[channel] / count, scale_gradient[channel] / count};
  }
  HORO_KERNEL void normalise(const NormalisationGradient (&of)[kWord], std::size_t at) const {
    float x[kWord], g[kWord];
    load_piece(x, source.x + at);
    source.gradient.load(g, at);
    if (addend_gradient != nullptr) store_piece(addend_gradient + at, g);
    for (unsigned i = 0; i < kWord; ++i) x[i] = of[i](g[i], x[i]);
    store_piece(dx + at, x);
  }
};

template <typename Source, typename Places, unsigned kWord, typename Finish>
void reduce(device::Stream& stream, const Source& source, const Places& places, void* workspace,
            const Finish& finish) {
  using Partial = typename Source::Partial;
  auto* partials = static_cast<Partial*>(workspace);
  device::launch(stream, {places.blocks(), kPlaceThreads},
                 ReduceChunks<Source, Places, kWord>{source, places, partials});
  using Merge = MergeChunks<Partial, Finish>;
  const auto blocks =
      static_cast<unsigned>((places.channels() + Merge::kChannels - 1) / Merge::kChannels);
  device::launch(stream, {blocks, Merge::kThreads},
                 Merge{partials, places.chunks(), places.channels(), finish});
}

/// Calls function(zero of T, places, word size): words of 16 bytes if all `arrays` allow them.
template <typename T, typename Function>
void visit_places(const ImageBatch& images, ImageLayout layout,
                  std::initializer_list<const void*> arrays, const Function& function) {
  const auto with_word = [&]<unsigned kWord>(std::integral_constant<unsigned, kWord> word) {
    if (layout == ImageLayout::kChannelsLast) return function(T{}, RowPlaces<kWord>(images), word);
    function(T{}, PlanePlaces<kWord>(images), word);
  };
  constexpr unsigned kVector = kPerVector<T>;
  const std::size_t adjacent =
      layout == ImageLayout::kChannelsLast ? images.channels : images.height * images.width;
  const bool is_aligned = std::ranges::all_of(arrays, device::is_vector_aligned);
  if (is_aligned && adjacent % kVector == 0)
    return with_word(std::integral_constant<unsigned, kVector>{});
  with_word(std::integral_constant<unsigned, 1>{});
}

template <typename Function>
void visit(const ImageBatch& images, const ImageFormat& format,
           std::initializer_list<const void*> arrays, const Function& function) {
  visit_float_type(format.type, "batch normalisation of images", [&]<typename T>(T) {
    visit_places<T>(images, format.layout, arrays, function);
  });
}

template <typename T>
const T* as(const void* array) {
  return static_cast<const T*>(array);
}

}  // namespace

std::size_t batch_norm_workspace_bytes(const ImageBatch& images, const ImageFormat& format) {
  std::size_t chunks = 0;
  const auto measure = [&](auto, const auto& places, auto) {
    chunks = std::max(chunks, places.chunks());
  };
  visit(images, format, {}, measure);
  const void* const unaligned = reinterpret_cast<const void*>(std::uintptr_t{1});
  visit(images, format, {unaligned}, measure);
  return chunks * images.channels * std::max(sizeof(Moments), sizeof(GradientSums));
}

void batch_norm_training(device::Stream& stream, const ImageBatch& images,
                         const ImageFormat& format, const BatchNormTraining& arrays, float epsilon,
                         void* workspace) {
  visit(images, format, {arrays.input, arrays.addend, arrays.output},
        [&]<typename T, typename Places, unsigned kWord>(T, const Places& places,
                                                         std::integral_constant<unsigned, kWord>) {
          using Source = InputMoments<T>;
          reduce<Source, Places, kWord>(
              stream, Source{as<T>(arrays.input)}, places, workspace,
              FinishStatistics{arrays.mean, arrays.inverse_deviation, arrays.running_mean,
                               arrays.running_variance, static_cast<float>(arrays.momentum),
                               epsilon});
          device::launch(
              stream, {places.blocks(), kPlaceThreads},
              Normalise<T, Places, kWord>{places, as<T>(arrays.input), as<T>(arrays.addend),
                                          static_cast<T*>(arrays.output), arrays.scale,
                                          arrays.shift, arrays.mean, arrays.inverse_deviation,
                                          false, arrays.has_relu, epsilon});
        });
}

void batch_norm_inference(device::Stream& stream, const ImageBatch& images,
                          const ImageFormat& format, const BatchNormInference& arrays,
                          float epsilon) {
  visit(images, format, {arrays.input, arrays.addend, arrays.output},
        [&]<typename T, typename Places, unsigned kWord>(T, const Places& places,
                                                         std::integral_constant<unsigned, kWord>) {
          device::launch(stream, {places.blocks(), kPlaceThreads},
                         Normalise<T, Places, kWord>{
                             places, as<T>(arrays.input), as<T>(arrays.addend),
                             static_cast<T*>(arrays.output), arrays.scale, arrays.shift,
                             arrays.mean, arrays.variance, true, arrays.has_relu, epsilon});
        });
}

void batch_norm_backward(device::Stream& stream, const ImageBatch& images,
                         const ImageFormat& format, const BatchNormBackward& arrays,
                         void* workspace) {
  const auto count = static_cast<float>(images.batch * images.height * images.width);
  visit(images, format,
        {arrays.input, arrays.output_gradient, arrays.output, arrays.input_gradient,
         arrays.addend_gradient},
        [&]<typename T, typename Places, unsigned kWord>(T, const Places& places,
                                                         std::integral_constant<unsigned, kWord>) {
          const GradientSource<T> source{as<T>(arrays.input),
                                         {as<T>(arrays.output_gradient), as<T>(arrays.output)},
                                         arrays.mean};
          reduce<GradientSource<T>, Places, kWord>(
              stream, source, places, workspace,
              FinishGradients{arrays.inverse_deviation, arrays.scale_gradient,
                              arrays.shift_gradient});
          device::launch(
              stream, {places.blocks(), kPlaceThreads},
              NormaliseBackward<T, Places, kWord>{
                  places, source, arrays.inverse_deviation, arrays.scale, arrays.scale_gradient,
                  arrays.shift_gradient, count, static_cast<T*>(arrays.input_gradient),
                  static_cast<T*>(arrays.addend_gradient)});
        });
}

}  // namespace horo::ops::device_kernels
