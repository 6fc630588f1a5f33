#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <set>
#include <span>

#include "horo/base/error.h"
#include "ops/data/batch.h"
#include "ops/data/dataset.h"
#include "ops/data/global_sampler.h"
#include "ops/tensor/image_crop.h"

namespace horo::ops {

/// Changes the float32 input of a sample that Dataset::read() has written. Deterministic: equal
/// arguments give equal values. Called from several threads at once. See CropAndFlip.
using Augmentation =
    std::function<void(std::span<float> values, std::uint64_t epoch, std::uint64_t sample)>;

/// The same for the pixels of PixelImages.
using PixelAugmentation =
    std::function<void(std::span<std::uint8_t> pixels, std::uint64_t epoch, std::uint64_t sample)>;

/// The crop of a sample that the training step applies. Deterministic. Called from several threads
/// at once. See CropAndFlip::crop_of().
using CropOfSample = std::function<ImageCrop(std::uint64_t epoch, std::uint64_t sample)>;

/// What happens if a sample cannot be read, because its file is damaged, for example.
enum class BadSamples {
  kFatal,  ///< DataLoader::next() throws SampleError
  /// The sample gets the weight 0: it adds nothing to the gradient, and the weights of the other
  /// samples do not change. A warning names each such sample once.
  kSkip,
};

/// A sample cannot be read. what() has its index, its name (Dataset::name_of()) and the cause.
class SampleError : public Error {
 public:
  /// For use inside horo.
  SampleError(std::uint64_t sample, const std::string& text) : Error(text), sample_(sample) {}
  /// The index in the data set.
  std::uint64_t sample() const { return sample_; }

 private:
  std::uint64_t sample_;
};

/// How samples are read.
struct BatchReaderOptions {
  /// Applied to every sample; empty: none.
  Augmentation augmentation{};
  /// Reads the pixels of PixelImages as uint8, which the training step normalises: a quarter of the
  /// memory and of the bytes that are copied to a device. Has no effect for other data sets.
  bool as_pixels = false;
  /// In place of `augmentation` if pixels are read.
  PixelAugmentation pixel_augmentation{};
  /// In place of both augmentations if pixels are read: the crops are part of the batch
  /// (Batch::crops), and the training step applies them where it normalises the pixels.
  CropOfSample crop{};
  /// Allocates pinned memory for batches, called from several threads at once. Empty: batches are
  /// in ordinary host memory.
  std::function<device::Memory(std::size_t bytes)> allocate_pinned{};
  BadSamples bad_samples = BadSamples::kFatal;  ///< what a bad sample causes
};

/// The work of reading samples, over all threads.
struct ReadingWork {
  std::uint64_t batches = 0;             ///< that were read
  std::chrono::nanoseconds time{0};      ///< of Dataset::read() and the augmentation
  std::chrono::nanoseconds cpu_time{0};  ///< of these; the rest of the time is waiting for files
  std::uint64_t bad_samples = 0;         ///< reads that failed and were skipped
};

/// Reads the samples of steps into batches. Thread-safe.
class BatchReader {
 public:
  /// Borrows `dataset` and `sampler`. Throws InvalidArgument for an augmentation of inputs that are
  /// not float32 or without the one for pixels, or if the sampler is for another number of
  /// samples.
  BatchReader(const Dataset& dataset, const GlobalSampler& sampler,
              const BatchReaderOptions& options);

  /// Returns the batch of a step, numbered as GlobalSampler::locate() does. Throws SampleError for
  /// a sample that cannot be read, unless it is skipped. Other exceptions than std::runtime_error
  /// are not errors of a sample and pass through.
  Batch read(std::uint64_t step);
  /// The largest size of a batch.
  std::size_t batch_bytes() const;
  /// The work so far, over all threads.
  ReadingWork work() const;

 private:
  SampleForm input() const;
  bool read_sample(Batch& batch, std::size_t row, std::uint64_t sample);
  void set_crops(Batch& batch) const;
  void note_bad(const SampleError& error);
  Tensor allocate(std::size_t rows, const SampleForm& form) const;

  const Dataset& dataset_;
  const GlobalSampler& sampler_;
  const BatchReaderOptions options_;
  const PixelImages* const pixels_;  // null if float32 values are read
  std::shared_ptr<const std::vector<PixelScale>> pixel_scales_;
  std::atomic<std::uint64_t> batches_ = 0;
  std::atomic<std::int64_t> nanoseconds_ = 0, cpu_nanoseconds_ = 0;
  std::atomic<std::uint64_t> bad_ = 0;
  std::mutex mutex_;               // guards named_
  std::set<std::uint64_t> named_;  // bad samples that a warning has named
};

}  // namespace horo::ops
