#include "ops/data/batch_reader.h"

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "horo/base/error.h"
#include "horo/base/text/log.h"

namespace horo::ops {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kMostNamed = 100;

std::int64_t thread_cpu_nanoseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

std::string describe_bad(const Dataset& dataset, std::uint64_t sample, const std::string& cause) {
  const std::string name = dataset.name_of(sample);
  if (name.empty() || cause.find(name) != std::string::npos)
    return fmt::format("sample {} cannot be read: {}", sample, cause);
  return fmt::format("sample {} ({}) cannot be read: {}", sample, name, cause);
}

std::span<std::byte> row_of(Tensor& tensor, std::size_t row) {
  const std::size_t bytes = tensor.bytes() / tensor.shape()[0];
  return {tensor.raw() + row * bytes, bytes};
}

// The padding gets the values of a sample that can be read, so that layers that combine samples see
// usual values.
void fill_row(Tensor& tensor, std::size_t row, std::size_t source_rows) {
  const auto to = row_of(tensor, row);
  if (source_rows > 0)
    std::ranges::copy(row_of(tensor, 0), to.begin());
  else
    std::ranges::fill(to, std::byte{0});
}

}  // namespace

BatchReader::BatchReader(const Dataset& dataset, const GlobalSampler& sampler,
                         const BatchReaderOptions& options)
    : dataset_(dataset),
      sampler_(sampler),
      options_(options),
      pixels_(options.as_pixels ? dynamic_cast<const PixelImages*>(&dataset) : nullptr) {
  if (pixels_ != nullptr)
    pixel_scales_ = std::make_shared<const std::vector<PixelScale>>(pixels_->pixel_scales());
  HORO_CHECK(
      pixels_ == nullptr || !options.augmentation || options.pixel_augmentation || options.crop,
      "images are read as pixels, but pixel_augmentation is not set; set both augmentations");
  HORO_CHECK(!options.augmentation || dataset.input().type == DataType::kFloat32,
             fmt::format("an augmentation changes float32 inputs; those of the data set are {}",
                         name_of(dataset.input().type)));
  HORO_CHECK(sampler.options().dataset_size == dataset.size(),
             fmt::format("the sampler is for {} samples, the data set has {}",
                         sampler.options().dataset_size, dataset.size()));
}

SampleForm BatchReader::input() const {
  return {dataset_.input().shape, pixels_ != nullptr ? DataType::kUInt8 : dataset_.input().type};
}

Tensor BatchReader::allocate(std::size_t rows, const SampleForm& form) const {
  std::vector<std::size_t> dimensions = form.shape.dimensions();
  dimensions.insert(dimensions.begin(), rows);
  Shape shape(std::move(dimensions));
  if (!options_.allocate_pinned || rows == 0) return Tensor(std::move(shape), form.type);
  const auto memory =
      std::make_shared<device::Memory>(options_.allocate_pinned(rows * form.bytes()));
  return Tensor(std::move(shape), form.type, memory->data(), memory);
}

std::size_t BatchReader::batch_bytes() const {
  const std::size_t crop = pixels_ != nullptr && options_.crop ? sizeof(ImageCrop) : 0;
  const std::size_t row = input().bytes() + dataset_.target().bytes() + sizeof(std::int64_t) + crop;
  return sampler_.largest_local_count() * row;
}

// Samples that cannot be read are moved to the end of the batch, where the padding is. Rows before
// `good` are those of readable samples.
Batch BatchReader::read(std::uint64_t step) {
  const auto start = steady_clock::now();
  const std::int64_t cpu_start = thread_cpu_nanoseconds();
  Batch batch{.where = sampler_.locate(step), .is_pinned = options_.allocate_pinned != nullptr};
  const std::vector<std::uint64_t> samples = sampler_.samples(batch.where);
  batch.padding = sampler_.local_padding(batch.where);
  batch.pixel_scales = pixel_scales_;
  batch.inputs = allocate(samples.size(), input());
  batch.targets = allocate(samples.size(), dataset_.target());
  batch.samples = allocate(samples.size(), {.shape = {}, .type = DataType::kInt64});
  if (pixels_ != nullptr && options_.crop)
    batch.crops = allocate(samples.size(), {.shape = {3}, .type = DataType::kInt32});
  const std::size_t counted = batch.counted_rows();
  auto* const order = batch.samples.data<std::int64_t>();
  std::size_t good = 0, bad = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const bool is_read = read_sample(batch, good, samples[i]);
    if (!is_read && i < counted) ++batch.padding;
    const std::size_t row = is_read ? good++ : samples.size() - ++bad;
    order[row] = static_cast<std::int64_t>(samples[i]);
  }
  for (std::size_t row = good; row < samples.size(); ++row) {
    fill_row(batch.inputs, row, good);
    fill_row(batch.targets, row, good);
  }
  if (batch.crops) set_crops(batch);
  nanoseconds_ += std::chrono::nanoseconds(steady_clock::now() - start).count();
  cpu_nanoseconds_ += thread_cpu_nanoseconds() - cpu_start;
  ++batches_;
  return batch;
}

void BatchReader::set_crops(Batch& batch) const {
  const auto samples = batch.sample_indices();
  for (std::size_t row = 0; row < samples.size(); ++row) {
    const ImageCrop crop = options_.crop(batch.where.epoch, samples[row]);
    std::memcpy(row_of(*batch.crops, row).data(), &crop, sizeof crop);
  }
}

// Returns false for a bad sample that is skipped.
bool BatchReader::read_sample(Batch& batch, std::size_t row, std::uint64_t sample) try {
  const auto input = row_of(batch.inputs, row);
  const auto target = row_of(batch.targets, row);
  const std::uint64_t epoch = batch.where.epoch;
  if (pixels_ != nullptr) {
    const std::span pixels(reinterpret_cast<std::uint8_t*>(input.data()), input.size());
    const std::int32_t label = pixels_->copy_pixels(sample, pixels);
    std::memcpy(target.data(), &label, sizeof label);
    if (options_.pixel_augmentation && !options_.crop)
      options_.pixel_augmentation(pixels, epoch, sample);
    return true;
  }
  dataset_.read(sample, input, target);
  if (options_.augmentation)
    options_.augmentation({reinterpret_cast<float*>(input.data()), input.size() / sizeof(float)},
                          epoch, sample);
  return true;
} catch (const std::runtime_error& error) {
  const SampleError named(sample, describe_bad(dataset_, sample, error.what()));
  if (options_.bad_samples == BadSamples::kFatal) throw named;
  note_bad(named);
  return false;
}

void BatchReader::note_bad(const SampleError& error) {
  ++bad_;
  const std::lock_guard lock(mutex_);
  if (named_.size() >= kMostNamed || !named_.insert(error.sample()).second) return;
  log_warning("{}; it is skipped", error.what());
  if (named_.size() == kMostNamed)
    log_warning("{} samples cannot be read; more of them are skipped without a message",
                kMostNamed);
}

ReadingWork BatchReader::work() const {
  return {batches_, std::chrono::nanoseconds(nanoseconds_),
          std::chrono::nanoseconds(cpu_nanoseconds_), bad_};
}

}  // namespace horo::ops
