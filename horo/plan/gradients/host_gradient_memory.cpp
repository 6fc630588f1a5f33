#include "horo/plan/gradients/host_gradient_memory.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "collectives/reduce/tensor_values.h"

namespace horo::plan {
namespace {

std::byte* bytes_of(const TensorView& tensor) { return static_cast<std::byte*>(tensor.data()); }

double sum_of_squares(const TensorView& tensor) {
  return collectives::sum_of_squares(tensor.type(), bytes_of(tensor), tensor.count());
}

}  // namespace

HostGradientMemory::HostGradientMemory(std::vector<NamedTensor> gradients,
                                       std::vector<bool> is_metric)
    : gradients_(std::move(gradients)),
      is_metric_(std::move(is_metric)),
      squares_(gradients_.size(), 0.0) {}

void HostGradientMemory::begin_step() {
  findings_ = {};
  std::ranges::fill(squares_, 0.0);
}

void HostGradientMemory::examine_own(const std::vector<std::size_t>& gradients) {
  for (const std::size_t i : gradients) find_in_own(i);
}

// Keeps the gradient that was registered first among those with a non-finite value, so that the
// result does not depend on the order of the buckets. The sum of squares is a fast test. The values
// are examined one by one only if the sum is not finite.
void HostGradientMemory::find_in_own(std::size_t gradient) {
  if (findings_.own && findings_.own->gradient < gradient) return;
  if (std::isfinite(sum_of_squares(gradients_[gradient].tensor))) return;
  if (const auto found = find_in(gradient)) findings_.own = found;
}

std::optional<GradientMemory::NonFinite> HostGradientMemory::find_in(std::size_t gradient) const {
  const TensorView& tensor = gradients_[gradient].tensor;
  const auto found = collectives::find_non_finite(tensor.type(), bytes_of(tensor), tensor.count());
  if (!found) return std::nullopt;
  return NonFinite{gradient, found->index, found->value};
}

void HostGradientMemory::examine_reduced(const std::vector<std::size_t>& gradients) {
  for (const std::size_t i : gradients) squares_[i] = sum_of_squares(gradients_[i].tensor);
}

// Non-finite gradients are not clipped, because scaling would not make them finite. The norm of
// finite values may exceed float64; such gradients are not clipped either.
void HostGradientMemory::clip(std::optional<double> max_norm) {
  findings_.norm = norm();
  findings_.reduced = find_in_reduced();
  if (findings_.reduced || !max_norm || findings_.norm <= *max_norm ||
      !std::isfinite(findings_.norm))
    return;
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    if (!is_metric_[i]) scale(i, *max_norm / findings_.norm);
  findings_.was_clipped = true;
}

double HostGradientMemory::norm() const {
  double sum = 0;
  for (std::size_t i = 0; i < squares_.size(); ++i)
    if (!is_metric_[i]) sum += squares_[i];
  return std::sqrt(sum);
}

// A non-finite sum does not prove that a value is non-finite, because the squares of finite float64
// values may exceed the range of float64.
std::optional<GradientMemory::NonFinite> HostGradientMemory::find_in_reduced() const {
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    if (!std::isfinite(squares_[i]))
      if (const auto found = find_in(i)) return found;
  return std::nullopt;
}

void HostGradientMemory::set_zero() {
  for (std::size_t i = 0; i < gradients_.size(); ++i) set_zero(i);
}

void HostGradientMemory::set_zero(std::size_t gradient) const {
  collectives::set_zero(gradients_[gradient].tensor);
}

void HostGradientMemory::scale(std::size_t gradient, double factor) const {
  const TensorView& tensor = gradients_[gradient].tensor;
  collectives::scale(tensor.type(), bytes_of(tensor), tensor.count(), factor);
}

}  // namespace horo::plan
