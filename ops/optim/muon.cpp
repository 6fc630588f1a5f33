#include "ops/optim/muon.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "horo/base/error.h"
#include "ops/backend/device/update/layerwise_update.h"
#include "ops/optim/layerwise.h"
#include "ops/optim/update_groups.h"

namespace horo::ops {
namespace {

/// The rows and columns of a parameter as a matrix.
std::pair<std::size_t, std::size_t> sides_of(const Parameter& parameter) {
  const std::size_t rows = parameter.value.shape()[0];
  return {rows, parameter.value.count() / rows};
}

/// An update by AdamW has a root mean square of about 0.2, and the elements of an orthogonal matrix
/// one of 1 / sqrt(longer side).
float scale_of(const Parameter& parameter) {
  const auto [rows, columns] = sides_of(parameter);
  return 0.2f * std::sqrt(static_cast<float>(std::max(rows, columns)));
}

}  // namespace

Muon::Muon(std::vector<Parameter*> parameters, const MuonOptions& options)
    : AdamW(std::move(parameters), options.adamw, "Muon"), muon_(options) {
  HORO_CHECK(options.momentum >= 0 && options.momentum < 1,
             fmt::format("Muon: momentum is {}; must be in [0, 1)", options.momentum));
  HORO_CHECK(!options.adamw.coupled_decay,
             "Muon: the weight decay is decoupled; turn coupled_decay off");
  for (std::size_t i = 0; i < this->parameters().size(); ++i) {
    const Parameter& one = *this->parameters()[i];
    is_matrix_.push_back(is_matrix(one) && one.value.count() > 0 &&
                         std::ranges::none_of(options.by_adamw, [&](const std::string& pattern) {
                           return matches(pattern, one.name);
                         }));
    if (is_matrix_[i]) second_moments()[i] = Tensor::zeros({0});
  }
}

std::string Muon::describe_options() const {
  return fmt::format("{}, momentum {}{}, and AdamW for [{}]", AdamW::describe_options(),
                     muon_.momentum, muon_.nesterov ? " (nesterov)" : "",
                     fmt::join(muon_.by_adamw, ", "));
}

void Muon::enter_device() {
  AdamW::enter_device();
  orthogonalisers_.clear();
  scratch_ = layerwise_scratch(backend(), parameters());
}

void Muon::leave_device() {
  AdamW::leave_device();
  orthogonalisers_.clear();
  scratch_ = Tensor();
}

void Muon::make_orthogonal(std::size_t index, Tensor& direction) {
  const auto [rows, columns] = sides_of(*parameters()[index]);
  orthogonalisers_.try_emplace({rows, columns}, backend(), rows, columns)
      .first->second.apply(direction);
}

// The final update of a matrix is that of Sgd without momentum, with the orthogonal matrix as the
// gradient. Matrices follow each other in one stream, so their temporary memory is reused.
void Muon::update_on_device(device::Stream& stream, const StepGradients& gradients) {
  count_step(stream, gradients);
  AdamW::update_on_device(stream, gradients, [&](std::size_t i) { return !is_matrix_[i]; });
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    if (!is_matrix_[i]) continue;
    Parameter& one = *parameters()[i];
    const GradientLocation at = location_of(parameters(), i, gradients);
    device_kernels::GradientUse use = use_of(gradients, at, factors()[i]);
    Tensor direction = backend().allocate(one.value.shape(), DataType::kFloat32);
    device_kernels::muon_direction(
        stream, {direction.data(), first_moments()[i].data(), at.data, direction.count()}, at.type,
        muon_.momentum, muon_.nesterov, scratch_.raw(), use);
    make_orthogonal(i, direction);
    use.scale = scale_of(one);
    use.factor = nullptr;
    const device_kernels::SgdTensor tensor{one.value.data(), nullptr, direction.data(),
                                           one.copy.raw(), one.value.count()};
    device_kernels::update_sgd(stream, {&tensor, 1}, {.copy = one.computed().type()},
                               with_factors(SgdOptions{.learning_rate = options().learning_rate,
                                                       .weight_decay = options().weight_decay},
                                            factors()[i]),
                               use);
  }
}

void Muon::update_on_host() {
  const AdamWRule adamw = count_step();
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    if (!is_matrix_[i]) {
      AdamW::update_on_host(i, adamw);
      continue;
    }
    Parameter& one = *parameters()[i];
    Tensor direction(one.value.shape());
    const MuonRule rule{muon_.momentum, muon_.nesterov};
    double squares = 0;
    const auto values = one.value.values(), directions = direction.values();
    std::size_t next = 0;
    for_each_value<1>(one, {first_moments()[i].values()}, [&](float&, float* own, float gradient) {
      float& value = directions[next++];
      const double measured = rule.measure(value, own, gradient);
      squares += measured * measured;
    });
    const float ratio = rule.ratio_of(0, std::sqrt(squares));
    for (float& value : directions) value *= ratio;
    make_orthogonal(i, direction);
    const AdamWRule own = with_factors(adamw, factors()[i]);
    const float scale = scale_of(one);
    for (std::size_t k = 0; k < values.size(); ++k)
      values[k] -= own.learning_rate * (scale * directions[k] + own.weight_decay * values[k]);
  }
}

}  // namespace horo::ops
