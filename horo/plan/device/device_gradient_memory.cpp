#include "horo/plan/device/device_gradient_memory.h"

#include <algorithm>
#include <cstring>

#include "horo/base/error.h"
#include "horo/base/text/quantity.h"

namespace horo::plan {
namespace {

using collectives::GradientVerdict;
using collectives::TileTable;
using collectives::ValueFindings;

constexpr std::size_t kArrayAlignment = 256;

std::size_t tiles_of(const TensorView& tensor) {
  return (tensor.count() + TileTable::kTileElements - 1) / TileTable::kTileElements;
}

// The tables of a layout list all elements of its tensors, in order.
collectives::FusedLayout tables_of(const std::vector<TensorView>& tensors) {
  return {tensors, tensors.front().type(), std::numeric_limits<std::size_t>::max()};
}

// Assigns parts of one block of memory. The first use, without a block, only adds the sizes.
class ArrayParts {
 public:
  explicit ArrayParts(std::byte* data) : data_(data) {}
  template <typename T>
  T* next(std::size_t count) {
    T* const part = data_ == nullptr ? nullptr : reinterpret_cast<T*>(data_ + bytes_);
    bytes_ += round_up(count * sizeof(T), kArrayAlignment);
    return part;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_;
  std::size_t bytes_ = 0;
};

std::optional<GradientMemory::NonFinite> found_in(const collectives::NonFiniteInTensors& found) {
  if (found.tensor == ValueFindings::kNone) return std::nullopt;
  return GradientMemory::NonFinite{found.tensor, found.index, found.value};
}

}  // namespace

DeviceGradientMemory::DeviceGradientMemory(device::Device& device,
                                           const std::vector<NamedTensor>& gradients,
                                           const std::vector<bool>& is_metric,
                                           const BucketPlan& plan)
    : device_(device),
      gradients_(gradients),
      bucket_of_(plan.bucket_of),
      tiles_(gradients.size()),
      ended_(device.make_event()),
      before_(device.make_stream(device::Priority::kHigh)),
      after_(device.make_stream(device::Priority::kHigh)) {
  for (const std::vector<std::size_t>& members : plan.buckets) add_bucket(members);
  for (int t = 0; t < kDataTypeCount; ++t) {
    std::vector<TensorView> tensors;
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (!is_metric[i] && gradients[i].tensor.type() == static_cast<DataType>(t))
        tensors.push_back(gradients[i].tensor);
    if (!tensors.empty() && is_floating(tensors.front().type()))
      clipped_.push_back(tables_of(tensors));
  }
  collectives::load_gradient_kernels(device);
  allocate(is_metric);
}

DeviceGradientMemory::~DeviceGradientMemory() {
  for (device::Stream* stream : {before_.get(), after_.get()}) {
    try {
      stream->synchronize();
    } catch (const DeviceError&) {
      // The code that waits for the step also receives this error.
    }
  }
}

// Gradients of integers have no tiles: they are always finite and do not count in the norm.
void DeviceGradientMemory::add_bucket(const std::vector<std::size_t>& members) {
  std::vector<TensorView> tensors;
  for (const std::size_t i : members) tensors.push_back(gradients_[i].tensor);
  buckets_.push_back({tables_of(tensors), tile_count_});
  if (!is_floating(tensors.front().type())) return;
  for (const std::size_t i : members) {
    tiles_[i].begin = tile_count_;
    tile_count_ += tiles_of(gradients_[i].tensor);
    tiles_[i].end = tile_count_;
  }
}

void DeviceGradientMemory::allocate(const std::vector<bool>& is_metric) {
  const std::size_t count = gradients_.size();
  const auto assign = [&](std::byte* data) {
    ArrayParts parts(data);
    tiles_on_device_ = parts.next<collectives::TilesOfTensor>(count);
    for (Pass* pass : {&own_, &reduced_})
      *pass = {parts.next<ValueFindings>(tile_count_), parts.next<ValueFindings>(count)};
    verdict_ = parts.next<GradientVerdict>(1);
    return parts.bytes();
  };
  memory_ = device_.allocate(assign(nullptr));
  assign(memory_.data());
  pinned_ = device_.allocate_pinned(2 * sizeof(GradientVerdict));
  for (std::size_t i = 0; i < count; ++i) tiles_[i].is_metric = is_metric[i];
  const std::size_t bytes = count * sizeof(collectives::TilesOfTensor);
  const device::Memory staging = device_.allocate_pinned(bytes);
  std::memcpy(staging.data(), tiles_.data(), bytes);
  after_->copy(memory_.data(), staging.data(), bytes);
  after_->record(*ended_);
  after_->synchronize();
}

// The findings of this step overwrite those of the previous step, which clip() has read.
void DeviceGradientMemory::begin_step() {
  before_->wait(*ended_);
  has_examined_own_ = has_examined_reduced_ = false;
  ++step_;
}

void DeviceGradientMemory::examine(device::Stream& stream, const Pass& pass, std::size_t bucket) {
  const Tables& tables = buckets_[bucket];
  ValueFindings* of_tiles = pass.of_tiles + tables.first_tile;
  for (const TileTable& table : tables.layout.tables()) {
    collectives::examine_tiles(stream, table, tables.layout.type(), of_tiles);
    of_tiles += table.tiles();
  }
}

void DeviceGradientMemory::examine_own(const std::vector<std::size_t>& gradients) {
  examine(*before_, own_, bucket_of(gradients));
  has_examined_own_ = true;
}

void DeviceGradientMemory::examine_reduced(const std::vector<std::size_t>& gradients) {
  examine(*after_, reduced_, bucket_of(gradients));
  has_examined_reduced_ = true;
}

// In a step without an exchange, nothing was examined, and the arrays have the findings of an
// earlier step. after() waits for before() through the exchange of each bucket.
void DeviceGradientMemory::clip(std::optional<double> max_norm) {
  is_empty_ = !has_examined_reduced_;
  if (is_empty_) return;
  const std::size_t count = gradients_.size();
  const auto combine = [&](const Pass& pass) {
    collectives::combine_tiles(*after_, tiles_on_device_, count, pass.of_tiles, pass.of_tensors);
    return pass.of_tensors;
  };
  const ValueFindings* reduced = combine(reduced_);
  const ValueFindings* own = has_examined_own_ ? combine(own_) : nullptr;
  collectives::judge_gradients(*after_, tiles_on_device_, count, reduced, own,
                               max_norm.value_or(std::numeric_limits<double>::infinity()),
                               verdict_);
  if (max_norm)
    for (const collectives::FusedLayout& layout : clipped_)
      for (const TileTable& table : layout.tables())
        collectives::scale_by_verdict(*after_, device_.full_grid(), table, layout.type(), verdict_);
  after_->copy(pinned_.data() + step_ % 2 * sizeof(GradientVerdict), verdict_,
               sizeof(GradientVerdict));
  after_->record(*ended_);
}

void DeviceGradientMemory::set_zero() {
  for (const NamedTensor& gradient : gradients_)
    if (gradient.tensor.count() > 0)
      after_->fill(gradient.tensor.data(), 0, gradient.tensor.bytes());
}

void DeviceGradientMemory::set_zero_before(const std::vector<std::size_t>& gradients) {
  for (const std::size_t i : gradients)
    if (gradients_[i].tensor.count() > 0)
      before_->fill(gradients_[i].tensor.data(), 0, gradients_[i].tensor.bytes());
}

GradientMemory::Findings DeviceGradientMemory::findings() {
  if (is_empty_) return {};
  GradientVerdict verdict;
  std::memcpy(&verdict, pinned_.data() + step_ % 2 * sizeof verdict, sizeof verdict);
  return {.norm = verdict.norm,
          .was_clipped = verdict.factor != 1,
          .own = found_in(verdict.own),
          .reduced = found_in(verdict.reduced)};
}

}  // namespace horo::plan
