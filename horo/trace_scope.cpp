#include "horo/trace_scope.h"

#include <utility>

#include "horo/device/cuda/nvtx_range.h"
#include "horo/metrics/rank_meter.h"
#include "horo/runtime/runtime.h"

namespace horo {
namespace {

using observe::FlightRecorder;

FlightRecorder::SpanKind span_kind_of(TraceScope::Kind kind) {
  return kind == TraceScope::Kind::kPhase ? FlightRecorder::SpanKind::kPhase
                                          : FlightRecorder::SpanKind::kPause;
}

}  // namespace

// The flight recorder keeps only the current span of each kind. A scope therefore stores the
// enclosing span, and end() makes the enclosing span current again. For this reason, scopes must
// end in the reverse order.
TraceScope::TraceScope(std::shared_ptr<Runtime> runtime, Kind kind, std::string_view name)
    : runtime_(std::move(runtime)), kind_(kind) {
  const auto span = runtime_->recorder().begin(span_kind_of(kind), name);
  name_ = span.name;
  outer_ = span.outer;
  since_ = span.since;
  if (auto* const meter = runtime_->meter().get()) measured_ = meter->begin_phase(name);
  outer_since_ = span.outer_since;
  traced_ = device::begin_nvtx_range(name);
}

// Moving leaves `other` without a runtime, so `other` does not end the span again.
TraceScope::TraceScope(TraceScope&& other) noexcept = default;

TraceScope& TraceScope::operator=(TraceScope&& other) noexcept {
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

TraceScope::~TraceScope() { end(); }

// A child process of fork() must not take a lock of the recorder, because another thread may have
// held the lock at the fork. Such a lock stays locked in the child.
void TraceScope::end() noexcept {
  if (runtime_ == nullptr) return;
  if (!runtime_->home().is_elsewhere()) {
    runtime_->recorder().end(span_kind_of(kind_), {name_, outer_, since_, outer_since_});
    if (auto* const meter = runtime_->meter().get()) meter->end_phase(measured_);
    device::end_nvtx_range(traced_);
  }
  runtime_.reset();
}

}  // namespace horo
