#include "ops/train/step/loss_scaling.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <sstream>

#include "horo/base/error.h"

namespace horo::ops {

using device_kernels::LossScale;

LossScaling::LossScaling(const LossScaleOptions& options)
    : options_(options), value_{.scale = options.initial, .good_steps = 0} {
  HORO_CHECK(std::isfinite(options.initial) && options.initial > 0,
             fmt::format("the loss scale is {}; it must be above 0", options.initial));
  HORO_CHECK(options.growth_interval > 0,
             "the loss scale grows after 0 good steps; choose at least 1");
}

void LossScaling::move_to(DeviceBackend& backend) {
  memory_ = backend.device().allocate(sizeof(LossScale));
  const device::Memory pinned = backend.device().allocate_pinned(sizeof(LossScale));
  std::memcpy(pinned.data(), &value_, sizeof value_);
  backend.stream().copy(memory_.data(), pinned.data(), sizeof value_);
  backend.stream().synchronize();
  backend_ = &backend;
}

void LossScaling::release() {
  if (backend_ == nullptr) return;
  value_ = value();
  reset();
}

void LossScaling::reset() noexcept {
  backend_ = nullptr;
  memory_ = device::Memory();
}

LossScale* LossScaling::on_device() const {
  return backend_ == nullptr ? nullptr : reinterpret_cast<LossScale*>(memory_.data());
}

LossScale LossScaling::value() {
  if (backend_ == nullptr) return value_;
  const device::Memory pinned = backend_->device().allocate_pinned(sizeof(LossScale));
  backend_->stream().copy(pinned.data(), memory_.data(), sizeof(LossScale));
  backend_->stream().synchronize();
  LossScale value;
  std::memcpy(&value, pinned.data(), sizeof value);
  return value;
}

// Nine digits give the same float again.
std::string LossScaling::state() {
  const LossScale now = value();
  return fmt::format("{:.9g} {}", now.scale, now.good_steps);
}

void LossScaling::set_state(const std::string& state) {
  std::istringstream text(state);
  LossScale saved;
  HORO_CHECK(text >> saved.scale >> saved.good_steps && saved.scale > 0,
             fmt::format("'{}' is no loss scale with its number of good steps", state));
  value_ = saved;
}

}  // namespace horo::ops
