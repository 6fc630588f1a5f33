#include "horo/coordinator/step_treatment.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "collectives/reduce/tensor_values.h"

namespace horo::coordinator {
namespace {

std::vector<bool> find_metrics(std::span<const NamedTensor> gradients,
                               const StepSettings& settings) {
  std::vector<bool> is_metric;
  for (const NamedTensor& gradient : gradients)
    is_metric.push_back(std::ranges::find(settings.metrics, gradient.name) !=
                        settings.metrics.end());
  return is_metric;
}

}  // namespace

StepTreatment::StepTreatment(std::span<const NamedTensor> gradients, StepSettings settings,
                             const Topology& topology)
    : gradients_(gradients.begin(), gradients.end()),
      settings_(std::move(settings)),
      weights_(topology),
      norms_(gradients_, find_metrics(gradients, settings_), topology),
      is_unused_(gradients.size(), 0) {}

void StepTreatment::begin(collectives::Collectives& collectives) {
  if (settings_.is_weighted) weights_.agree(collectives);
  norms_.begin_step();
}

ReduceOp StepTreatment::before(const std::vector<std::size_t>& members, ReduceOp op,
                               bool is_compressed) {
  if (weights_.are_equal()) {
    look_for_source(members);
    return op;
  }
  // A share is at most 1, so that all values stay in range. Residuals of compression are those of
  // an average.
  if (!is_compressed) op = ReduceOp::kSum;
  const double factor = weights_.factor(op);
  if (factor == 0) {
    for (const std::size_t i : members) set_zero(i);  // whatever they hold, NaN too
    return op;
  }
  look_for_source(members);
  for (const std::size_t i : members) {
    const TensorView& tensor = gradients_[i].tensor;
    collectives::scale(tensor.type(), static_cast<std::byte*>(tensor.data()), tensor.count(),
                       factor);
  }
  return op;
}

// Of the values as the program has written them, without weight.
void StepTreatment::look_for_source(const std::vector<std::size_t>& members) {
  if (!settings_.checks_finite) return;
  for (const std::size_t i : members) norms_.look_for_source(i);
}

void StepTreatment::after(const std::vector<std::size_t>& members) {
  if (!settings_.measures()) return;
  for (const std::size_t i : members) norms_.measure(i);
}

void StepTreatment::end(collectives::Collectives& collectives, StepReport& report) {
  report.total_weight = weights_.total();
  if (is_skipped())
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      set_zero(i);
      if (settings_.measures()) norms_.measure(i);
    }
  if (settings_.finds_unused) find_unused(collectives, report);
  if (settings_.measures()) judge(collectives, report);
}

void StepTreatment::set_zero(std::size_t gradient) const {
  const TensorView& tensor = gradients_[gradient].tensor;
  if (tensor.count() > 0) std::memset(tensor.data(), 0, tensor.bytes());
}

void StepTreatment::find_unused(collectives::Collectives& collectives, StepReport& report) {
  collectives.allreduce({DataType::kUInt8, is_unused_.data(), is_unused_.size()}, ReduceOp::kMin);
  for (std::size_t i = 0; i < is_unused_.size(); ++i)
    if (is_unused_[i] != 0) report.unused_everywhere.push_back(i);
  std::ranges::fill(is_unused_, std::uint8_t{0});
}

// By the reduced values alone, so that all ranks judge alike.
void StepTreatment::judge(collectives::Collectives& collectives, StepReport& report) {
  norms_.conclude(report);
  if (!report.is_finite) {
    if (settings_.checks_finite) report.non_finite = norms_.find_source(collectives);
  } else if (settings_.clip_norm && report.norm > *settings_.clip_norm &&
             std::isfinite(report.norm)) {  // the norm of finite values may be beyond float64
    norms_.scale_all(*settings_.clip_norm / report.norm);
    report.was_clipped = true;
  }
}

}  // namespace horo::coordinator
