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

/// The samples of this rank in one step, in host memory or in the memory of a device.
struct Batch {
  EpochStep where;
  Tensor inputs;           ///< [b, ...], of the form Dataset::input(); b may be 0
  Tensor targets;          ///< [b, ...], of the form Dataset::target()
  Tensor samples;          ///< int64 [b]: the indices in the data set
  bool is_pinned = false;  ///< a device can copy the tensors while the host continues

  std::size_t rows() const { return samples.count(); }
  /// For Pass::samples.
  std::span<const std::uint64_t> sample_indices() const {
    return {reinterpret_cast<const std::uint64_t*>(samples.raw()), samples.count()};
  }
};

/// Returns rows [first, first + count) of a batch in host memory. They share its memory.
Batch rows_of(const Batch& batch, std::size_t first, std::size_t count);

/// Changes the float32 input of a sample that Dataset::read() has written. Deterministic: equal
/// arguments give equal values. Called from several threads at once. See CropAndFlip.
using Augmentation =
    std::function<void(std::span<float> values, std::uint64_t epoch, std::uint64_t sample)>;

struct DataLoaderOptions {
  /// Threads that load batches; 0: next() loads on the calling thread. Raise it if training waits
  /// for data.
  std::size_t threads = 1;
  /// Batches loaded ahead; at least 1. More batches hide slow reads but need more memory.
  std::size_t prefetch = 2;
  /// Applied to every sample; empty: none.
  Augmentation augmentation{};
  /// Allocates pinned memory for batches, called from several threads at once. Empty: batches are
  /// in ordinary host memory.
  std::function<device::Memory(std::size_t bytes)> allocate_pinned{};
};

/// Loads batches ahead of the training loop. The order and content of batches do not depend on the
/// number of threads. next() must be called from one thread. The data set and the sampler must
/// outlive the loader. The destructor stops the threads at any point of an epoch.
class DataLoader {
 public:
  /// Loads the steps [first, last), numbered as GlobalSampler::locate() does. Throws
  /// InvalidArgument if prefetch is 0, or for an augmentation of inputs that are not float32.
  DataLoader(const Dataset& dataset, const GlobalSampler& sampler, std::uint64_t first,
             std::uint64_t last, const DataLoaderOptions& options = {});
  ~DataLoader();

  /// Returns the next batch, or nothing after the last one. Blocks until it is loaded. Rethrows an
  /// exception of the data set; the loader then has no more batches.
  std::optional<Batch> next();

  /// Total time spent in next(): the time that training waited for data.
  std::chrono::nanoseconds waited() const { return waited_; }

 private:
  struct Slot {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };

  Batch load(std::uint64_t step) const;
  Tensor allocate(std::size_t rows, const SampleForm& form) const;
  Slot fill_slot(std::uint64_t step) const;
  void fill_slots(std::stop_token stop);
  Slot take_slot();

  const Dataset& dataset_;
  const GlobalSampler& sampler_;
  const Augmentation augmentation_;
  const std::function<device::Memory(std::size_t)> allocate_pinned_;
  const std::uint64_t last_;
  std::chrono::nanoseconds waited_{0};

  std::mutex mutex_;  // guards the members below, up to threads_
  std::condition_variable_any slot_filled_;
  std::condition_variable_any slot_taken_;
  std::vector<Slot> slots_;  // step s goes through slot s % slots_.size()
  std::uint64_t to_fill_;    // the next step that no thread has begun
  std::uint64_t to_take_;    // the next step for the consumer

  std::vector<std::jthread> threads_;
};

}  // namespace horo::ops
