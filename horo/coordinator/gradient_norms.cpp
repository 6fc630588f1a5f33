#include "horo/coordinator/gradient_norms.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "collectives/reduce/tensor_values.h"
#include "horo/coordinator/plan_agreement.h"

namespace horo::coordinator {
namespace {

std::byte* bytes_of(const TensorView& tensor) { return static_cast<std::byte*>(tensor.data()); }

auto find_non_finite(const TensorView& tensor) {
  return collectives::find_non_finite(tensor.type(), bytes_of(tensor), tensor.count());
}

double sum_of_squares(const TensorView& tensor) {
  return collectives::sum_of_squares(tensor.type(), bytes_of(tensor), tensor.count());
}

}  // namespace

GradientNorms::GradientNorms(std::vector<NamedTensor> gradients, std::vector<bool> is_metric,
                             const Topology& topology)
    : gradients_(std::move(gradients)),
      is_metric_(std::move(is_metric)),
      topology_(topology),
      squares_(gradients_.size(), 0.0) {}

void GradientNorms::look_for_source(std::size_t gradient) {
  // The first gradient of the list counts, not the first that is exchanged: buckets do not show.
  if (own_source_ && own_source_->gradient < gradient) return;
  const TensorView& tensor = gradients_[gradient].tensor;
  if (std::isfinite(sum_of_squares(tensor))) return;
  if (const auto found = find_non_finite(tensor))
    own_source_ = {topology_.rank, gradient, found->index, found->value};
}

void GradientNorms::measure(std::size_t gradient) {
  squares_[gradient] = sum_of_squares(gradients_[gradient].tensor);
}

void GradientNorms::conclude(StepReport& report) const {
  double sum = 0;
  for (std::size_t i = 0; i < squares_.size(); ++i)
    if (!is_metric_[i]) sum += squares_[i];
  report.norm = std::sqrt(sum);
  report.is_finite = std::ranges::all_of(squares_, [](double x) { return std::isfinite(x); }) ||
                     !find_in_results();
}

// Squares of float64 may be too large while the values are not.
std::optional<GradientNorms::Source> GradientNorms::find_in_results() const {
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    if (!std::isfinite(squares_[i]))
      if (const auto found = find_non_finite(gradients_[i].tensor))
        return Source{-1, i, found->index, found->value};
  return std::nullopt;
}

StepReport::NonFinite GradientNorms::find_source(collectives::Collectives& collectives) const {
  const Source nowhere{-1, 0, 0, 0};
  Source first = find_in_results().value_or(nowhere);
  const Source own = own_source_.value_or(nowhere);
  for (const std::vector<std::byte>& bytes :
       gather_all(std::as_bytes(std::span(&own, 1)), collectives, topology_)) {
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

void GradientNorms::begin_step() { own_source_.reset(); }

}  // namespace horo::coordinator
