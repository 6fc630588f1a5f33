#include "ops/data/datasets/digits_dataset.h"

#include <algorithm>

#include "ops/data/dataset.h"
#include "ops/data/random_stream.h"

namespace horo::ops {

namespace {

// Mean and standard deviation of the pixels of many images.
constexpr PixelScale kDigitScale{.mean = 0.160f, .deviation = 0.276f};

}  // namespace

DigitsDataset::DigitsDataset(const DigitsOptions& options)
    // The images stay uninitialised until they are drawn. Pages of images that this rank never
    // draws are then never allocated.
    : options_(options),
      images_(std::make_unique_for_overwrite<DigitImage[]>(options.size)),
      states_(options.size) {}

std::vector<PixelScale> DigitsDataset::pixel_scales() const { return {kDigitScale}; }

std::int32_t DigitsDataset::copy_pixels(std::size_t index, std::span<std::uint8_t> pixels) const {
  check_copy(index, pixels.size());
  const std::uint64_t set = combine_keys(options_.seed, options_.split == Split::kTrain ? 1 : 2);
  const std::uint64_t key = combine_keys(set, index);
  const auto label = static_cast<std::int32_t>(key % 10);
  // Several loader threads may draw the same image at once. The release store of kReady publishes
  // the image to threads that load kReady with acquire. Only the thread whose exchange succeeds
  // writes images_[index]; the others use their own copy and do not wait. The exchange can be
  // relaxed because it publishes nothing.
  auto& state = states_[index];
  if (state.load(std::memory_order_acquire) == State::kReady) {
    std::ranges::copy(images_[index], pixels.begin());
    return label;
  }
  const DigitImage image = render_digit(label, key);
  std::ranges::copy(image, pixels.begin());
  State expected = State::kEmpty;
  if (state.compare_exchange_strong(expected, State::kBeingDrawn, std::memory_order_relaxed)) {
    images_[index] = image;
    state.store(State::kReady, std::memory_order_release);
  }
  return label;
}

}  // namespace horo::ops
