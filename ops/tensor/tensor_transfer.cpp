#include "ops/tensor/tensor_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "horo/base/error.h"
#include "horo/base/float16.h"
#include "horo/base/text/log.h"

namespace horo::ops {
namespace {

void check(const Tensor& host, const Tensor& device) {
  HORO_CHECK(
      host.shape() == device.shape(),
      fmt::format("cannot copy between a host tensor of shape {} and a device tensor of shape {}",
                  host.shape().to_string(), device.shape().to_string()));
  const DataType type = device.type();
  HORO_CHECK(is_floating(type) && type != DataType::kFloat64,
             fmt::format("cannot copy a tensor of type {} between host and device; supported: "
                         "float32, float16, bfloat16",
                         name_of(type)));
}

template <typename T>
void convert_to(std::span<const float> values, std::byte* to) {
  std::ranges::transform(values, reinterpret_cast<T*>(to), [](float value) { return T(value); });
}

template <typename T>
void convert_from(const std::byte* from, std::span<float> values) {
  std::transform(reinterpret_cast<const T*>(from), reinterpret_cast<const T*>(from) + values.size(),
                 values.begin(), [](T value) { return static_cast<float>(value); });
}

}  // namespace

TensorTransfer::TensorTransfer(device::Device& device)
    : device_(device), done_(device.make_event()) {}

// The pinned buffer must outlive a copy in flight from or to it.
TensorTransfer::~TensorTransfer() {
  try {
    done_->synchronize();
  } catch (const std::exception& error) {
    log_warning("a copy to a device has failed: {}", error.what());
  }
}

// There is one pinned buffer, so a call waits for the previous copy before it touches the buffer.
// After every copy, done_ is recorded on the stream of the copy.
std::byte* TensorTransfer::staging(std::size_t bytes) {
  done_->synchronize();
  if (pinned_.size() < bytes) pinned_ = device_.allocate_pinned(bytes);
  return pinned_.data();
}

// Returns while the copy is in flight: the copy reads the pinned buffer, not `from`.
void TensorTransfer::upload(const Tensor& from, Tensor& to, device::Stream& stream) {
  check(from, to);
  if (to.bytes() == 0) return;
  std::byte* const staged = staging(to.bytes());
  switch (to.type()) {
    case DataType::kFloat16:
      convert_to<Float16>(from.values(), staged);
      break;
    case DataType::kBFloat16:
      convert_to<BFloat16>(from.values(), staged);
      break;
    default:
      convert_to<float>(from.values(), staged);
  }
  stream.copy(to.raw(), staged, to.bytes());
  stream.record(*done_);
}

// The host converts the values, so this waits until the copy to the pinned buffer is complete.
void TensorTransfer::download(const Tensor& from, Tensor& to, device::Stream& stream) {
  check(to, from);
  if (from.bytes() == 0) return;
  std::byte* const staged = staging(from.bytes());
  stream.copy(staged, from.raw(), from.bytes());
  stream.record(*done_);
  done_->synchronize();
  switch (from.type()) {
    case DataType::kFloat16:
      convert_from<Float16>(staged, to.values());
      break;
    case DataType::kBFloat16:
      convert_from<BFloat16>(staged, to.values());
      break;
    default:
      convert_from<float>(staged, to.values());
  }
}

}  // namespace horo::ops
