#include "horo/plan/gradient_norms.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "collectives/agreement.h"
#include "collectives/reduce/tensor_values.h"

namespace horo::plan {
namespace {

std::byte* bytes_of(const TensorView& tensor) { return static_cast<std::byte*>(tensor.data()); }

auto find_non_finite(const TensorView& tensor) {
  return collectives::find_non_finite(tensor.type(), bytes_of(tensor), tensor.count());
}

double sum_of_squares(const TensorView& tensor) {
  return collectives::sum_of_squares(tensor.type(), bytes_of(tensor), tensor.count());
}

}  // namespace

GradientNorms::GradientNorms(std::span<const NamedTensor> gradients, const NormOptions& options,
                             const Topology& topology)
    : gradients_(gradients.begin(), gradients.end()),
      options_(options),
      topology_(topology),
      squares_(gradients.size(), 0.0) {
  for (const NamedTensor& gradient : gradients)
    is_metric_.push_back(std::ranges::find(options.metrics, gradient.name) !=
                         options.metrics.end());
}

void GradientNorms::begin_exchange(StepExchange& /*step*/) { own_source_.reset(); }

void GradientNorms::before_bucket(const StepExchange& step, BucketExchange& bucket) {
  if (!options_.check_finite || !step.has_data) return;
  for (const std::size_t i : bucket.gradients) find_in_own(i);
}

void GradientNorms::find_in_own(std::size_t gradient) {
  // Keeps the gradient that was registered first among those with a non-finite value, so that the
  // report does not depend on the order of the buckets. The sum of squares is a fast test. The
  // values are examined one by one only if the sum is not finite.
  if (own_source_ && own_source_->gradient < gradient) return;
  const TensorView& tensor = gradients_[gradient].tensor;
  if (std::isfinite(sum_of_squares(tensor))) return;
  if (const auto found = find_non_finite(tensor))
    own_source_ = {topology_.rank, gradient, found->index, found->value};
}

void GradientNorms::after_bucket(const BucketExchange& bucket) {
  for (const std::size_t i : bucket.gradients) squares_[i] = sum_of_squares(gradients_[i].tensor);
}

// All decisions depend only on the reduced values and the options, so all ranks call find_source(),
// which is collective, or none does. In a skipped step, there are no reduced values, and squares_
// still has the sums of an earlier step, so the sums are set to 0. Non-finite gradients are not
// clipped, because scaling would not make them finite.
void GradientNorms::end_exchange(StepExchange& step) {
  if (step.is_skipped()) std::ranges::fill(squares_, 0.0);
  StepReport& report = step.report;
  report.norm = norm();
  report.is_finite = are_all_finite();
  if (!report.is_finite) {
    if (options_.check_finite) report.non_finite = find_source(step.collectives);
  } else if (options_.clip_norm && report.norm > *options_.clip_norm &&
             std::isfinite(report.norm)) {  // The norm of finite values may exceed float64.
    scale_all(*options_.clip_norm / report.norm);
    report.was_clipped = true;
  }
}

double GradientNorms::norm() const {
  double sum = 0;
  for (std::size_t i = 0; i < squares_.size(); ++i)
    if (!is_metric_[i]) sum += squares_[i];
  return std::sqrt(sum);
}

bool GradientNorms::are_all_finite() const {
  return std::ranges::all_of(squares_, [](double x) { return std::isfinite(x); }) ||
         !find_in_results();
}

// A non-finite sum does not prove that a value is non-finite, because the squares of finite float64
// values may exceed the range of float64.
std::optional<GradientNorms::Source> GradientNorms::find_in_results() const {
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    if (!std::isfinite(squares_[i]))
      if (const auto found = find_non_finite(gradients_[i].tensor))
        return Source{-1, i, found->index, found->value};
  return std::nullopt;
}

// Collective. Returns the non-finite value of the lowest rank that has found one in its own
// gradients. If no rank has found one, the step itself has produced the value, for example by
// overflow of a sum. In that case, returns the value in the reduced gradients.
StepReport::NonFinite GradientNorms::find_source(collectives::Collectives& collectives) const {
  Source first = find_in_results().value_or(Source{});
  const Source own = own_source_.value_or(Source{});
  for (const std::vector<std::byte>& bytes :
       collectives::gather_all(std::as_bytes(std::span(&own, 1)), collectives, topology_)) {
    Source source;
    std::memcpy(&source, bytes.data(), sizeof source);
    if (source.rank < 0) continue;
    first = source;
    break;
  }
  return {static_cast<int>(first.rank), first.gradient, gradients_[first.gradient].name,
          first.index, first.value};
}

void GradientNorms::scale_all(double factor) const {
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    const TensorView& tensor = gradients_[i].tensor;
    if (!is_metric_[i]) collectives::scale(tensor.type(), bytes_of(tensor), tensor.count(), factor);
  }
}

}  // namespace horo::plan
