#include "ops/data/data_loader.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "horo/base/error.h"

namespace horo::ops {

DataLoader::DataLoader(const Dataset& dataset, const GlobalSampler& sampler, std::uint64_t first,
                       std::uint64_t last, const DataLoaderOptions& options)
    : sampler_(sampler),
      reader_(dataset, sampler,
              {.augmentation = options.augmentation,
               .as_pixels = options.as_pixels,
               .pixel_augmentation = options.pixel_augmentation,
               .crop = options.crop,
               .allocate_pinned = options.allocate_pinned,
               .bad_samples = options.bad_samples}),
      is_automatic_(!options.prefetch),
      depth_(options.prefetch.value_or(2),
             options.prefetch_bytes / std::max<std::size_t>(1, reader_.batch_bytes())),
      to_take_(first),
      last_(std::max(first, last)) {
  HORO_CHECK(options.prefetch != std::size_t{0}, "prefetch is 0; it must be at least 1");
  for (std::size_t i = 0; i < options.threads; ++i)
    threads_.emplace_back([this](std::stop_token stop) { fill_slots(std::move(stop)); });
}

DataLoader::~DataLoader() {
  // Requests all stops before the first join, so that the threads stop in parallel.
  for (auto& thread : threads_) thread.request_stop();
}

DataLoader::Slot DataLoader::fill_slot(std::uint64_t step) {
  Slot slot;
  try {
    slot.batch = reader_.read(step);
  } catch (...) {
    slot.error = std::current_exception();
  }
  return slot;
}

// A thread claims a step by adding its slot. Slots are removed only from the front, after they are
// filled, so the slot of a claimed step is at `step - to_take_`.
void DataLoader::fill_slots(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto has_room = [this] {
      return !is_held_ && slots_.size() < depth_.batches() && to_take_ + slots_.size() < last_;
    };
    if (!slot_taken_.wait(lock, stop, has_room)) return;
    const std::uint64_t step = to_take_ + slots_.size();
    slots_.emplace_back();
    lock.unlock();
    Slot filled = fill_slot(step);
    lock.lock();
    slots_[step - to_take_] = std::move(filled);
    slot_filled_.notify_one();
  }
}

// Runs on the consumer thread only. Batches leave in step order, whichever thread completes first,
// because the consumer waits for the slot of exactly the next step.
DataLoader::Slot DataLoader::take_slot() {
  std::unique_lock lock(mutex_);
  if (is_automatic_) {
    const std::size_t before = depth_.batches();
    depth_.note_take(static_cast<std::size_t>(std::ranges::count_if(slots_, &Slot::is_filled)));
    if (depth_.batches() > before) slot_taken_.notify_all();
  }
  slot_filled_.wait(lock, [&] { return !slots_.empty() && slots_.front().is_filled(); });
  Slot taken = std::move(slots_.front());
  slots_.pop_front();
  ++to_take_;
  slot_taken_.notify_all();
  return taken;
}

std::optional<Batch> DataLoader::next() {
  // Only the consumer thread writes to_take_ and last_, so it may read them without the lock.
  if (to_take_ >= last_) return std::nullopt;
  const auto start = std::chrono::steady_clock::now();
  Slot taken = threads_.empty() ? fill_slot(to_take_++) : take_slot();
  waited_ += std::chrono::steady_clock::now() - start;
  // The loader stops at the first error in step order. clear() joins the threads, so none of them
  // uses the data set after next() has thrown.
  if (taken.error) {
    for (auto& thread : threads_) thread.request_stop();
    threads_.clear();
    to_take_ = last_;
    std::rethrow_exception(taken.error);
  }
  ++batches_;
  return std::move(taken.batch);
}

void DataLoader::restart(std::uint64_t first, std::uint64_t last) {
  std::unique_lock lock(mutex_);
  last_ = to_take_;  // no thread begins another step
  slot_filled_.wait(lock, [&] { return std::ranges::all_of(slots_, &Slot::is_filled); });
  slots_.clear();
  to_take_ = first;
  last_ = std::max(first, last);
  slot_taken_.notify_all();
}

std::uint64_t DataLoader::hold() {
  const std::lock_guard lock(mutex_);
  is_held_ = true;
  return to_take_ + slots_.size();
}

void DataLoader::release() {
  {
    const std::lock_guard lock(mutex_);
    is_held_ = false;
  }
  slot_taken_.notify_all();
}

LoaderReport DataLoader::report() const {
  const std::lock_guard lock(mutex_);
  return {batches_, waited_, reader_.work(), threads_.size(), depth_.batches()};
}

}  // namespace horo::ops
