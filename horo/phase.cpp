#include "horo/phase.h"

#include <utility>

#include "horo/base/device/nvtx_range.h"
#include "horo/metrics/rank_meter.h"
#include "horo/runtime.h"

namespace horo {
namespace {

using observe::FlightRecorder;

FlightRecorder::StretchKind stretch_of(Phase::Kind kind) {
  return kind == Phase::Kind::kPhase ? FlightRecorder::StretchKind::kPhase
                                     : FlightRecorder::StretchKind::kPause;
}

}  // namespace

Phase::Phase(std::shared_ptr<Runtime> runtime, Kind kind, std::string_view name)
    : runtime_(std::move(runtime)), kind_(kind) {
  const auto stretch = runtime_->recorder().begin(stretch_of(kind), name);
  name_ = stretch.name;
  outer_ = stretch.outer;
  since_ = stretch.since;
  if (auto* const meter = runtime_->meter().get()) measured_ = meter->begin_phase(name);
  outer_since_ = stretch.outer_since;
  traced_ = device::begin_nvtx_range(name);
}

Phase::Phase(Phase&& other) noexcept = default;

Phase& Phase::operator=(Phase&& other) noexcept {
  if (this == &other) return *this;
  end();
  runtime_ = std::move(other.runtime_);
  kind_ = other.kind_;
  name_ = other.name_;
  outer_ = other.outer_;
  since_ = other.since_;
  outer_since_ = other.outer_since_;
  measured_ = other.measured_;
  traced_ = other.traced_;
  return *this;
}

Phase::~Phase() { end(); }

void Phase::end() noexcept {
  if (runtime_ == nullptr) return;
  if (!runtime_->home().is_elsewhere()) {
    runtime_->recorder().end(stretch_of(kind_), {name_, outer_, since_, outer_since_});
    if (auto* const meter = runtime_->meter().get()) meter->end_phase(measured_);
    device::end_nvtx_range(traced_);
  }
  runtime_.reset();
}

}  // namespace horo
