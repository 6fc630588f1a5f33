#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "ops/data/batch.h"
#include "ops/data/batch_reader.h"
#include "ops/data/dataset.h"
#include "ops/data/global_sampler.h"
#include "ops/data/prefetch_depth.h"

namespace horo::ops {

/// The options of DataLoader.
struct DataLoaderOptions {
  /// Threads that load batches; 0: next() loads on the calling thread. Raise it if training waits
  /// for data.
  std::size_t threads = 1;
  /// Batches loaded ahead; at least 1. More batches hide slow reads but need more memory. Unset:
  /// starts with 2, and grows as PrefetchDepth does.
  std::optional<std::size_t> prefetch{};
  /// The largest size of the batches loaded ahead if `prefetch` is unset; but 2 batches are
  /// always loaded ahead.
  std::size_t prefetch_bytes = std::size_t{256} << 20;
  /// See BatchReaderOptions.
  Augmentation augmentation{};
  bool as_pixels = false;                                              ///< see BatchReaderOptions
  PixelAugmentation pixel_augmentation{};                              ///< see BatchReaderOptions
  CropOfSample crop{};                                                 ///< see BatchReaderOptions
  std::function<device::Memory(std::size_t bytes)> allocate_pinned{};  ///< see BatchReaderOptions
  BadSamples bad_samples = BadSamples::kFatal;                         ///< what a bad sample causes
};

/// What a DataLoader has done so far.
struct LoaderReport {
  std::uint64_t batches = 0;           ///< that next() has returned
  std::chrono::nanoseconds waited{0};  ///< in next(): the time that training waited for data
  ReadingWork reading;                 ///< of the threads
  std::size_t threads = 0;             ///< that load batches
  std::size_t prefetch = 0;            ///< batches that are loaded ahead now
};

/// Loads batches ahead of the training loop. The order and content of batches do not depend on the
/// number of threads. The threads live as long as the loader, over all epochs and restarts. The
/// members must be called from one thread. The data set and the sampler must outlive the loader.
/// The destructor stops the threads at any point of an epoch.
class DataLoader {
 public:
  /// Loads the steps [first, last), numbered as GlobalSampler::locate() does. To continue at a
  /// saved position, pass sampler.count_at(position) as `first`. Throws InvalidArgument if
  /// `prefetch` is 0, and as BatchReader does.
  DataLoader(const Dataset& dataset, const GlobalSampler& sampler, std::uint64_t first,
             std::uint64_t last, const DataLoaderOptions& options = {});
  ~DataLoader();

  /// Returns the next batch, or nothing after the last one. Blocks until it is loaded. Throws
  /// SampleError for a sample that cannot be read, and rethrows other exceptions of the data set;
  /// the loader then has no more batches.
  std::optional<Batch> next();
  /// Continues with the steps [first, last). Discards batches that are loaded and waits for those
  /// that a thread is loading. Not after next() has thrown.
  void restart(std::uint64_t first, std::uint64_t last);

  /// Begins no further step until release(). Returns the first step that is not begun. Its batch
  /// and those of the steps after it follow a later GlobalSampler::set_shares().
  std::uint64_t hold();
  /// Ends hold().
  void release();

  /// The position of the next batch: what a checkpoint stores.
  SamplePosition position() const { return sampler_.position(to_take_); }
  /// What the loader has done so far.
  LoaderReport report() const;
  /// LoaderReport::waited.
  std::chrono::nanoseconds waited() const { return waited_; }

 private:
  struct Slot {
    std::optional<Batch> batch;
    std::exception_ptr error;
    bool is_filled() const { return batch || error; }
  };

  Slot fill_slot(std::uint64_t step);
  void fill_slots(std::stop_token stop);
  Slot take_slot();

  const GlobalSampler& sampler_;
  BatchReader reader_;
  const bool is_automatic_;
  std::chrono::nanoseconds waited_{0};
  std::uint64_t batches_ = 0;

  mutable std::mutex mutex_;  // guards the members below, up to threads_
  std::condition_variable_any slot_filled_;
  std::condition_variable_any slot_taken_;
  PrefetchDepth depth_;
  std::uint64_t to_take_;  // the next step for the consumer
  std::uint64_t last_;
  bool is_held_ = false;
  std::deque<Slot> slots_;  // of the steps from to_take_ that threads have begun

  std::vector<std::jthread> threads_;
};

}  // namespace horo::ops
