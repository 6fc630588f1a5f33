#include "ops/train/callbacks/drift_guard.h"

#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

#include "ops/train/trainer_options.h"

namespace horo::ops {
namespace {

void add(std::vector<NamedTensor>& tensors, std::string name, Tensor& tensor) {
  if (tensor.count() > 0) tensors.push_back({std::move(name), tensor.view()});
}

// With Adam, a difference of the states changes the parameters only in the next step.
std::vector<NamedTensor> replicated_tensors(TrainingRun& run) {
  std::vector<NamedTensor> tensors;
  for (Parameter* parameter : run.model.parameters())
    add(tensors, parameter->name, parameter->value);
  if (run.optimizer.is_divided() || run.method != nullptr) return tensors;
  for (const Optimizer::State& state : run.optimizer.states())
    for (std::size_t i = 0; i < state.tensors.size(); ++i)
      add(tensors, fmt::format("{} of {}", state.name, run.optimizer.parameters()[i]->name),
          state.tensors[i]);
  return tensors;
}

}  // namespace

DriftGuard::DriftGuard(std::uint64_t every) : every_(every) {
  HORO_CHECK(every > 0, "DriftGuard: replicas are compared every 0 steps; choose at least 1");
}

void DriftGuard::after_step(TrainingRun& run) {
  if (run.steps % every_ != 0) return;
  device::Stream* const stream = run.model.backend().device_stream();
  run.optimizer.update_counters();
  if (run.method != nullptr) run.method->show_agreed();
  std::vector<std::int64_t> counters(run.optimizer.counters().begin(),
                                     run.optimizer.counters().end());
  std::vector<NamedTensor> tensors = replicated_tensors(run);
  // With local steps a rank may skip an update of its own.
  if (!counters.empty() && run.options.local_steps.count == 0)
    tensors.push_back({"steps of the optimizer", TensorView(counters)});
  try {
    run.context.check_equal(
        tensors, {.name = "train.drift", .stream = stream == nullptr ? nullptr : stream->native()});
  } catch (const MismatchError& error) {
    throw MismatchError(fmt::format(
        "step {}: the replicas have diverged, since an update was not the same on all ranks: {}; "
        "resume from a checkpoint before this step, and check the memory of the rank",
        run.steps, error.what()));
  }
}

}  // namespace horo::ops
