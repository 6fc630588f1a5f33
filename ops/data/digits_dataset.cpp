#include "ops/data/digits_dataset.h"

#include "ops/data/pixels.h"
#include "ops/data/random_stream.h"

namespace horo::ops {

namespace {

// Mean and standard deviation of the pixels of many images.
constexpr PixelScale kScale{.mean = 0.160f, .deviation = 0.276f};

}  // namespace

DigitsDataset::DigitsDataset(const DigitsOptions& options)
    : options_(options),
      images_(std::make_unique_for_overwrite<DigitImage[]>(options.size)),
      states_(options.size) {}

std::int32_t DigitsDataset::copy_sample(std::size_t index, std::span<float> values) const {
  check_copy(index, values.size());
  const std::uint64_t set = combine_keys(options_.seed, options_.split == Split::kTrain ? 1 : 2);
  const std::uint64_t key = combine_keys(set, index);
  const auto label = static_cast<std::int32_t>(key % 10);
  auto& state = states_[index];
  if (state.load(std::memory_order_acquire) == State::kReady) {
    normalise_pixels(images_[index], kScale, values);
    return label;
  }
  const DigitImage image = render_digit(label, key);
  normalise_pixels(image, kScale, values);
  State expected = State::kEmpty;
  if (state.compare_exchange_strong(expected, State::kBeingDrawn, std::memory_order_relaxed)) {
    images_[index] = image;
    state.store(State::kReady, std::memory_order_release);
  }
  return label;
}

}  // namespace horo::ops
