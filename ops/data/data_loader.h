#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "ops/data/dataset.h"
#include "ops/data/global_sampler.h"
#include "ops/tensor/tensor.h"

namespace horo::ops {

/// This rank's part of one step.
struct Batch {
  EpochStep where;
  Tensor inputs;                       ///< [b, sample shape]; b may be 0
  std::vector<std::int32_t> labels;    ///< b
  std::vector<std::uint64_t> samples;  ///< b indices in the data set
};

/// Changes a sample, as copy_sample() wrote it, by chance. The same arguments give the same values,
/// and it may be called from several threads at once: see CropAndFlip.
using Augmentation =
    std::function<void(std::span<float> values, std::uint64_t epoch, std::uint64_t sample)>;

struct DataLoaderOptions {
  /// Threads that fill batches; 0: the consumer's own, inside next(). Raise it when training waits
  /// for data.
  std::size_t threads = 1;
  /// Batches held ready ahead of the consumer; at least 1. More evens out slow reads, for memory.
  std::size_t prefetch = 2;
  /// Of every sample; empty: none.
  Augmentation augmentation{};
};

/// Fills batches ahead of the training loop. Batches come in the order of steps and with the same
/// content whatever the number of threads. next() is called from one thread; the data set and the
/// sampler must outlive the loader. The destructor stops the threads, in the middle of an epoch or
/// not.
class DataLoader {
 public:
  /// Loads the steps [first, last), numbered as GlobalSampler::locate() does. Throws
  /// InvalidArgument if prefetch is 0.
  DataLoader(const Dataset& dataset, const GlobalSampler& sampler, std::uint64_t first,
             std::uint64_t last, const DataLoaderOptions& options = {});
  ~DataLoader();

  /// The next batch, or nothing after the last. Blocks until it is filled. Rethrows what the data
  /// set threw for a sample of it; the loader is then at its end.
  std::optional<Batch> next();

  /// How long the calls of next() have taken in all: what training lost to loading.
  std::chrono::nanoseconds waited() const { return waited_; }

 private:
  struct Slot {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };

  Batch load(std::uint64_t step) const;
  Slot fill_slot(std::uint64_t step) const;
  void fill_slots(std::stop_token stop);
  Slot take_slot();

  const Dataset& dataset_;
  const GlobalSampler& sampler_;
  const Augmentation augmentation_;
  const std::uint64_t last_;
  std::chrono::nanoseconds waited_{0};

  std::mutex mutex_;  // guards what follows, up to threads_
  std::condition_variable_any slot_filled_;
  std::condition_variable_any slot_taken_;
  std::vector<Slot> slots_;  // step s goes through slot s % slots_.size()
  std::uint64_t to_fill_;    // the next step that no thread has begun
  std::uint64_t to_take_;    // the next step for the consumer

  std::vector<std::jthread> threads_;
};

}  // namespace horo::ops
