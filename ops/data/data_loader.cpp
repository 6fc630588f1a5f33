#include "ops/data/data_loader.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "horo/base/error.h"

namespace horo::ops {
namespace {

Shape with_rows(std::size_t rows, std::vector<std::size_t> inner) {
  inner.insert(inner.begin(), rows);
  return Shape(std::move(inner));
}

Tensor rows_of(const Tensor& from, std::size_t first, std::size_t count) {
  std::vector<std::size_t> dimensions = from.shape().dimensions();
  const std::size_t row = dimensions[0] == 0 ? 0 : from.bytes() / dimensions[0];
  dimensions[0] = count;
  const auto owner = std::make_shared<Tensor>(from.shared());
  return Tensor(Shape(std::move(dimensions)), from.type(), owner->raw() + first * row, owner);
}

}  // namespace

Batch rows_of(const Batch& batch, std::size_t first, std::size_t count) {
  return {batch.where, rows_of(batch.inputs, first, count), rows_of(batch.targets, first, count),
          rows_of(batch.samples, first, count), batch.is_pinned};
}

DataLoader::DataLoader(const Dataset& dataset, const GlobalSampler& sampler, std::uint64_t first,
                       std::uint64_t last, const DataLoaderOptions& options)
    : dataset_(dataset),
      sampler_(sampler),
      augmentation_(options.augmentation),
      allocate_pinned_(options.allocate_pinned),
      last_(std::max(first, last)),
      slots_(options.prefetch),
      to_fill_(first),
      to_take_(first) {
  HORO_CHECK(options.prefetch > 0, "prefetch is 0; it must be at least 1");
  HORO_CHECK(!options.augmentation || dataset.input().type == DataType::kFloat32,
             fmt::format("an augmentation changes float32 inputs; those of the data set are {}",
                         name_of(dataset.input().type)));
  HORO_CHECK(sampler.options().dataset_size == dataset.size(),
             fmt::format("the sampler is for {} samples, the data set has {}",
                         sampler.options().dataset_size, dataset.size()));
  for (std::size_t i = 0; i < options.threads; ++i)
    threads_.emplace_back([this](std::stop_token stop) { fill_slots(std::move(stop)); });
}

DataLoader::~DataLoader() {
  // Requests all stops before the first join, so that the threads stop in parallel.
  for (auto& thread : threads_) thread.request_stop();
}

Tensor DataLoader::allocate(std::size_t rows, const SampleForm& form) const {
  Shape shape = with_rows(rows, form.shape.dimensions());
  if (!allocate_pinned_ || rows == 0) return Tensor(std::move(shape), form.type);
  const auto memory = std::make_shared<device::Memory>(allocate_pinned_(rows * form.bytes()));
  return Tensor(std::move(shape), form.type, memory->data(), memory);
}

Batch DataLoader::load(std::uint64_t step) const {
  Batch batch{.where = sampler_.locate(step), .is_pinned = allocate_pinned_ != nullptr};
  const std::vector<std::uint64_t> samples = sampler_.samples(batch.where);
  const SampleForm input = dataset_.input(), target = dataset_.target();
  batch.inputs = allocate(samples.size(), input);
  batch.targets = allocate(samples.size(), target);
  batch.samples = allocate(samples.size(), {.shape = {}, .type = DataType::kInt64});
  std::ranges::copy(samples, batch.samples.data<std::int64_t>());
  const std::size_t input_bytes = input.bytes(), target_bytes = target.bytes();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::span values(batch.inputs.raw() + i * input_bytes, input_bytes);
    dataset_.read(samples[i], values, {batch.targets.raw() + i * target_bytes, target_bytes});
    if (augmentation_)
      augmentation_({reinterpret_cast<float*>(values.data()), input_bytes / sizeof(float)},
                    batch.where.epoch, samples[i]);
  }
  return batch;
}

DataLoader::Slot DataLoader::fill_slot(std::uint64_t step) const {
  Slot slot;
  try {
    slot.batch = load(step);
  } catch (...) {
    slot.error = std::current_exception();
  }
  return slot;
}

// A thread claims the next step only if fewer than slots_.size() steps are ahead of the consumer.
// The slot of a claimed step is therefore empty, and no two threads write to one slot.
void DataLoader::fill_slots(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto has_room = [this] { return to_fill_ < to_take_ + slots_.size(); };
    if (!slot_taken_.wait(lock, stop, has_room) || to_fill_ >= last_) return;
    const std::uint64_t step = to_fill_++;
    lock.unlock();
    Slot filled = fill_slot(step);
    lock.lock();
    slots_[step % slots_.size()] = std::move(filled);
    slot_filled_.notify_one();
  }
}

// Runs on the consumer thread only. Batches leave in step order, whichever thread completes first,
// because the consumer waits for the slot of exactly the next step.
DataLoader::Slot DataLoader::take_slot() {
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[to_take_ % slots_.size()];
  slot_filled_.wait(lock, [&] { return slot.batch || slot.error; });
  Slot taken = std::exchange(slot, {});
  ++to_take_;
  slot_taken_.notify_all();
  return taken;
}

std::optional<Batch> DataLoader::next() {
  // Only the consumer thread writes to_take_, so it may read it without the lock.
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
  return std::move(taken.batch);
}

}  // namespace horo::ops
