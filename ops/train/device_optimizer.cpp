#include "ops/train/device_optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <typeinfo>

#include "horo/base/error.h"
#include "ops/optim/update_rules.h"

namespace horo::ops {
namespace {

using device_kernels::AdamWClock;

device_kernels::UpdateTypes types_of(const Parameter& parameter, const ReducedGradient& gradient) {
  // Without a copy no second type is written.
  const bool has_copy = parameter.copy.count() > 0;
  return {.gradient = gradient.type, .copy = has_copy ? parameter.copy.type() : DataType::kFloat32};
}

std::size_t count_states(const OptimizerOptions& options) {
  if (const auto* sgd = std::get_if<SgdOptions>(&options)) return sgd->momentum > 0 ? 1 : 0;
  return AdamWRule::kStates;
}

}  // namespace

OptimizerOptions options_of(const Optimizer& optimizer) {
  if (typeid(optimizer) == typeid(Sgd)) return static_cast<const Sgd&>(optimizer).options();
  HORO_CHECK(typeid(optimizer) == typeid(AdamW),
             "training on a device: the optimizer is neither Sgd nor AdamW; train in host memory");
  return static_cast<const AdamW&>(optimizer).options();
}

std::string describe(const OptimizerOptions& options) {
  if (const auto* sgd = std::get_if<SgdOptions>(&options))
    return fmt::format("Sgd with momentum {}{} and weight decay {}", sgd->momentum,
                       sgd->nesterov ? " (nesterov)" : "", sgd->weight_decay);
  const auto& adamw = std::get<AdamWOptions>(options);
  return fmt::format("AdamW with beta1 {}, beta2 {}, epsilon {} and weight decay {}", adamw.beta1,
                     adamw.beta2, adamw.epsilon, adamw.weight_decay);
}

DeviceOptimizer::DeviceOptimizer(device::Device& device, device::Stream& stream,
                                 const std::vector<Parameter*>& parameters,
                                 std::span<const ReducedGradient> gradients,
                                 const OptimizerOptions& options)
    : options_(options),
      states_(count_states(options)),
      clock_(device.allocate(sizeof(AdamWClock))) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Parameter& one = *parameters[i];
    const Shape& shape = one.value.shape();
    float* state[AdamWRule::kStates] = {};
    for (std::size_t kind = 0; kind < states_.size(); ++kind) {
      Tensor values(shape, DataType::kFloat32, device,
                    device.allocate(shape.count() * sizeof(float)));
      state[kind] = values.data();
      states_[kind].push_back(std::move(values));
    }
    if (std::holds_alternative<SgdOptions>(options_))
      add(of_sgd_, one, gradients[i],
          {one.value.data(), state[0], gradients[i].data, one.copy.raw(), shape.count()});
    else
      add(of_adamw_, one, gradients[i],
          {one.value.data(), state[0], state[1], gradients[i].data, one.copy.raw(), shape.count()});
  }
  // Submitted last: if something above throws, no work on the stream uses the memory that is then
  // freed.
  stream.fill(clock_.data(), 0, sizeof(AdamWClock));
  for (std::vector<Tensor>& kind : states_)
    for (Tensor& state : kind) stream.fill(state.raw(), 0, state.bytes());
}

template <typename Entry>
void DeviceOptimizer::add(Groups<Entry>& groups, const Parameter& parameter,
                          const ReducedGradient& gradient, const Entry& entry) {
  const device_kernels::UpdateTypes types = types_of(parameter, gradient);
  const auto scale = static_cast<float>(gradient.scale);
  auto group = std::ranges::find_if(groups, [&](const Group<Entry>& one) {
    return one.types.gradient == types.gradient && one.types.copy == types.copy &&
           one.scale == scale;
  });
  if (group == groups.end()) group = groups.insert(group, {types, scale, {}});
  group->tensors.push_back(entry);
}

// AdamW keeps its step counter on the device: a step that the device skips must not count, and the
// host reads the skip flag only later.
void DeviceOptimizer::step(device::Stream& stream, const device_kernels::GradientUse& use) {
  device_kernels::GradientUse of_group = use;
  if (const auto* sgd = std::get_if<SgdOptions>(&options_)) {
    for (const auto& group : of_sgd_) {
      of_group.scale = group.scale;
      device_kernels::update_sgd(stream, group.tensors, group.types, *sgd, of_group);
    }
    return;
  }
  const auto& adamw = std::get<AdamWOptions>(options_);
  auto* clock = reinterpret_cast<AdamWClock*>(clock_.data());
  device_kernels::count_step(stream, adamw, clock, use.skip);
  for (const auto& group : of_adamw_) {
    of_group.scale = group.scale;
    device_kernels::update_adamw(stream, group.tensors, group.types, adamw, clock, of_group);
  }
}

void DeviceOptimizer::set_learning_rate(float learning_rate) {
  std::visit([&](auto& options) { options.learning_rate = learning_rate; }, options_);
}

void DeviceOptimizer::upload_state(Optimizer& from, DeviceBackend& backend) {
  // Copied, because the entries for the kernels refer to the memory of the states.
  const std::vector<Optimizer::State> states = from.states();
  for (std::size_t kind = 0; kind < states_.size(); ++kind)
    for (std::size_t i = 0; i < states_[kind].size(); ++i) {
      const Tensor moved = backend.from_host(states[kind].tensors[i].shared());
      backend.stream().copy(states_[kind][i].raw(), moved.raw(), moved.bytes());
    }
  const device::Memory pinned = backend.device().allocate_pinned(sizeof(AdamWClock));
  AdamWClock clock;
  for (const std::int64_t steps : from.counters()) clock.steps = steps;
  std::memcpy(pinned.data(), &clock, sizeof clock);
  backend.stream().copy(clock_.data(), pinned.data(), sizeof clock);
  backend.stream().synchronize();
}

void DeviceOptimizer::download_state(Optimizer& to, DeviceBackend& backend) {
  const std::vector<Optimizer::State> states = to.states();
  for (std::size_t kind = 0; kind < states_.size(); ++kind)
    for (std::size_t i = 0; i < states_[kind].size(); ++i)
      states[kind].tensors[i] = backend.to_host(states_[kind][i]);
  const device::Memory pinned = backend.device().allocate_pinned(sizeof(AdamWClock));
  backend.stream().copy(pinned.data(), clock_.data(), sizeof(AdamWClock));
  backend.stream().synchronize();
  AdamWClock clock;
  std::memcpy(&clock, pinned.data(), sizeof clock);
  for (std::int64_t& steps : to.counters()) steps = clock.steps;
}

}  // namespace horo::ops
